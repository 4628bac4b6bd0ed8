//! The tools `Glob` and `Grep` in a real folder.

use crate::support::tools::{Agent, is_error, text};
use serde_json::json;
use std::fs;
use std::os::unix::fs::symlink;
use throng::tools::{Cancel, Tool};

/// A small project with everything that may be in the way.
fn project() -> Agent {
    let agent = Agent::new();
    let dir = agent.dir();
    for (path, content) in [
        ("a.rs", "fn one() {}\nfn two() {}\n"),
        ("src/b.rs", "// before\nfn Two() {}\n// after\n"),
        ("src/deep/c.py", "def two(): pass\r\n"),
        (".hidden/d.rs", "two\n"),
        ("target/e.rs", "two\n"),
        (".git/f.rs", "two\n"),
        ("bin.rs", "two\0\n"),
        (".gitignore", "/target\n"),
    ] {
        let path = dir.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    symlink("/etc", dir.join("out")).unwrap();
    nix::unistd::mkfifo(&dir.join("pipe.rs"), nix::sys::stat::Mode::from_bits_truncate(0o600)).unwrap();
    agent
}

#[test]
fn goal_d2_glob_finds_files_by_their_path() {
    let agent = project();
    let glob = |input| text(&agent.run(Tool::Glob, &input));
    assert_eq!(glob(json!({"pattern": "**/*.rs"})), ".hidden/d.rs\na.rs\nbin.rs\nsrc/b.rs");
    assert_eq!(glob(json!({"pattern": "*.rs"})), "a.rs\nbin.rs");
    assert_eq!(glob(json!({"pattern": "./**/*.{py,js}", "path": "src"})), "src/deep/c.py");
    assert!(glob(json!({"pattern": "*.txt"})).starts_with("No file matches."));
    for (input, word) in [
        (json!({"pattern": "/etc/*"}), "relative to path"),
        (json!({"pattern": "a/../../*"}), "relative to path"),
        (json!({"pattern": "a[b"}), "'pattern'"),
        (json!({"pattern": "*", "path": "none"}), "no such file"),
        (json!({"pattern": "*", "path": "a.rs"}), "is no folder"),
        (json!({"pattern": "*", "path": "pipe.rs"}), "no file and no folder"),
    ] {
        let said = agent.run(Tool::Glob, &input);
        assert!(is_error(&said) && text(&said).contains(word), "{input}: {}", text(&said));
    }
    for n in 0..250 {
        fs::write(agent.dir().join(format!("n{n}.txt")), "").unwrap();
    }
    let many = glob(json!({"pattern": "*.txt"}));
    assert_eq!(many.lines().count(), 201);
    assert!(many.ends_with("[There are more files. Give a narrower pattern or path.]"));
}

#[test]
fn goal_d2_grep_finds_files_by_their_content() {
    let agent = project();
    let grep = |input| text(&agent.run(Tool::Grep, &input));
    assert_eq!(grep(json!({"pattern": "two"})), ".hidden/d.rs\na.rs\nsrc/deep/c.py");
    assert_eq!(grep(json!({"pattern": "two", "glob": "*.rs", "-i": true})), ".hidden/d.rs\na.rs\nsrc/b.rs");
    assert_eq!(grep(json!({"pattern": "two", "type": "py"})), "src/deep/c.py");
    assert_eq!(grep(json!({"pattern": "fn", "output_mode": "count"})), "a.rs:2\nsrc/b.rs:1");
    let content = json!({"pattern": "two", "output_mode": "content", "path": "src"});
    assert_eq!(grep(content), "src/deep/c.py:1:def two(): pass");
    let around = json!({"pattern": "Two", "output_mode": "content", "-C": 1});
    assert_eq!(grep(around), "src/b.rs-1-// before\nsrc/b.rs:2:fn Two() {}\nsrc/b.rs-3-// after");
    let plain = json!({"pattern": "fn", "output_mode": "content", "-n": false, "head_limit": 2, "-A": 0});
    let expected = "a.rs:fn one() {}\na.rs:fn two() {}\n[There may be more. Narrow the search, or raise head_limit if \
                    that was reached.]";
    assert_eq!(grep(plain), expected);
    let lines = json!({"pattern": "one.*fn two", "multiline": true, "output_mode": "content"});
    assert_eq!(grep(lines), "a.rs:1:fn one() {}\na.rs:2:fn two() {}");
    assert!(grep(json!({"pattern": "nowhere"})).starts_with("No match."));
    assert_eq!(grep(json!({"pattern": "one", "path": "a.rs"})), "a.rs");
    for (input, word) in [
        (json!({"pattern": "("}), "'pattern'"),
        (json!({"pattern": "a\\nb"}), "multiline"),
        (json!({"pattern": "a", "type": "klingon"}), "'klingon' is no type"),
        (json!({"pattern": "a", "glob": "a[b"}), "'glob'"),
        (json!({"pattern": "a", "output_mode": "lines"}), "'output_mode'"),
        (json!({"pattern": "a", "head_limit": 0}), "'head_limit'"),
        (json!({"pattern": "a", "path": "/dev/zero"}), "no file and no folder"),
        (json!({"pattern": "(((x{100}){100}){100}){100}"}), "'pattern'"),
    ] {
        let said = agent.run(Tool::Grep, &input);
        assert!(is_error(&said) && text(&said).contains(word), "{input}: {}", text(&said));
    }
}

#[test]
fn goal_d2_grep_is_bounded_and_can_be_cancelled() {
    let agent = project();
    fs::write(agent.dir().join("long"), format!("{}needle\n", "x".repeat(10_000_000))).unwrap();
    let long = text(&agent.run(Tool::Grep, &json!({"pattern": "needle", "output_mode": "content"})));
    assert!(long.len() < 700 && long.contains("[... 9999506 more bytes]"), "{}", long.len());
    fs::write(agent.dir().join("many"), "needle\n".repeat(100_000)).unwrap();
    let input = json!({"pattern": "needle", "output_mode": "content", "head_limit": 90_000, "path": "many"});
    let many = text(&agent.run(Tool::Grep, &input));
    assert!(many.len() < 31_000 && many.contains("There may be more"), "{}", many.len());
    let big = fs::File::create(agent.dir().join("sparse")).unwrap();
    big.set_len(2 << 30).unwrap();
    let sparse = agent.run(Tool::Grep, &json!({"pattern": "needle", "path": "sparse"}));
    assert!(text(&sparse).starts_with("No match"), "binary, so it is left at once");
    let cancel = Cancel::default();
    cancel.set();
    let call = throng::tools::run(Tool::Grep, json!({"pattern": "two"}), agent.view.clone(), cancel);
    assert_eq!(text(&agent.block_on(call)), "[The search was cancelled: this is not all.]");
}
