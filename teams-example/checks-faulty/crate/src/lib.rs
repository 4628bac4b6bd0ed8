//! A shopping basket: small enough to read at once, large enough to be checked.

/// One line of a basket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// The price of one piece.
    pub price_cents: u64,
    /// How many pieces are bought.
    pub pieces: u64,
}

impl Line {
    /// A line for so many pieces of one price.
    pub const fn new(price_cents: u64, pieces: u64) -> Line {
        Line {
            price_cents,
            pieces,
        }
    }

    /// What all pieces of this line cost, in cents.
    pub fn cost_cents(&self) -> u64 {
        self.price_cents + self.pieces
    }
}

/// What the whole basket costs, in cents.
pub fn total_cents(basket: &[Line]) -> u64 {
    basket.iter().map(Line::cost_cents).sum()
}

/// The line with the highest price for one piece; `None` for an empty basket.
pub fn dearest(basket: &[Line]) -> Option<Line> {
    basket.iter().copied().max_by_key(|line| line.price_cents)
}

/// An amount as it stands on a receipt: 1205 cents are `12.05`.
pub fn on_receipt(cents: u64) -> String {
    format!("{}.{:02}", cents / 100, cents % 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BREAD: Line = Line::new(320, 1);
    const APPLES: Line = Line::new(45, 6);

    #[test]
    fn total_counts_every_piece() {
        assert_eq!(total_cents(&[BREAD, APPLES]), 590);
    }

    #[test]
    fn an_empty_basket_costs_nothing() {
        assert_eq!(total_cents(&[]), 0);
        assert_eq!(dearest(&[]), None);
    }

    #[test]
    fn dearest_looks_at_the_price_of_one_piece() {
        assert_eq!(dearest(&[APPLES, BREAD]), Some(BREAD));
    }

    #[test]
    fn cents_have_two_digits() {
        assert_eq!(on_receipt(1205), "12.05");
        assert_eq!(on_receipt(7), "0.07");
    }
}
