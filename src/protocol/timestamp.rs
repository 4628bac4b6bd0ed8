//! Time as the shared files write it: RFC 3339 with milliseconds and `Z`.

use std::time::{Duration, SystemTime};

/// `2026-11-30T16:00:10.853Z`.
pub fn format(time: SystemTime) -> String {
    jiff::Timestamp::try_from(time)
        .map_or_else(|_| "1970-01-01T00:00:00.000Z".to_owned(), |t| format!("{t:.3}"))
}

/// Reads any RFC 3339 time since 1970, to the millisecond.
pub fn parse(text: &str) -> Option<SystemTime> {
    let ms = text.parse::<jiff::Timestamp>().ok()?.as_millisecond();
    Some(from_millis(u64::try_from(ms).ok()?))
}

/// Milliseconds since the epoch, as `createdAt` and `joinedAt` have it.
pub fn millis(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// The other way round.
pub fn from_millis(ms: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn milliseconds_and_z() {
        let time = from_millis(1_796_054_476_632);
        assert_eq!(format(time), "2026-11-30T16:01:16.632Z");
        assert_eq!(parse("2026-11-30T16:01:16.632Z"), Some(time));
        assert_eq!(millis(time), 1_796_054_476_632);
        assert_eq!(format(from_millis(0)), "1970-01-01T00:00:00.000Z");
        assert_eq!(parse("yesterday"), None);
    }
}
