//! The tools `Read`, `Edit` and `Write` with real files, friendly and hostile.

use crate::support::tools::{Agent, is_error, text};
use serde_json::json;
use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::time::{Duration, Instant};
use throng::provider::Content;
use throng::tools::{Access, Effect, Outcome, Tool, targets};

fn read(agent: &mut Agent, path: &str) -> Outcome {
    agent.does(Tool::Read, &json!({"file_path": path}))
}

fn refused(outcome: &Outcome, word: &str) {
    assert!(is_error(outcome) && text(outcome).contains(word), "{word}: {}", text(outcome));
    assert_eq!(outcome.effects, []);
}

#[test]
fn goal_d2_read_numbers_lines_and_pages() {
    let mut agent = Agent::new();
    let path = agent.dir().join("a.txt");
    let lines: String = (1..=5000).map(|n| format!("line {n}\r\n")).collect();
    fs::write(&path, format!("\u{feff}{lines}")).unwrap();
    let all = read(&mut agent, "a.txt");
    let told = text(&all);
    assert!(told.starts_with("     1\tline 1\n     2\tline 2\n"), "{}", &told[..80]);
    let end =
        "  2000\tline 2000\n[Shown are lines 1 to 2000; go on with offset 2001. The file has 5000 lines.]";
    assert!(told.ends_with(end), "{}", &told[told.len() - 200..]);
    assert!(matches!(all.effects.as_slice(), [Effect::Saw(seen, _)] if *seen == path));
    let page = agent.run(Tool::Read, &json!({"file_path": "./a.txt", "offset": 4999, "limit": 5}));
    assert_eq!(text(&page), "  4999\tline 4999\n  5000\tline 5000\n");
    let exact = agent.run(Tool::Read, &json!({"file_path": "a.txt", "offset": 5000, "limit": 1}));
    assert_eq!(text(&exact), "  5000\tline 5000\n");
    refused(&agent.run(Tool::Read, &json!({"file_path": "a.txt", "offset": 5001})), "has 5000 lines");
    refused(&agent.run(Tool::Read, &json!({"file_path": "a.txt", "limit": 0})), "'limit'");
    refused(&agent.run(Tool::Read, &json!({"file_path": "a.txt", "limit": -1})), "'limit'");
    refused(&agent.run(Tool::Read, &json!({"file_path": ""})), "a path is expected");
    refused(&agent.run(Tool::Read, &json!({"file_path": "none"})), "no such file");
    fs::write(agent.dir().join("empty"), "").unwrap();
    assert_eq!(text(&read(&mut agent, "empty")), "[The file is empty.]");
}

#[test]
fn goal_d2_read_survives_hostile_files() {
    let mut agent = Agent::new();
    let dir = agent.dir().to_owned();
    refused(&read(&mut agent, "."), "is a folder");
    nix::unistd::mkfifo(&dir.join("pipe"), nix::sys::stat::Mode::from_bits_truncate(0o600)).unwrap();
    refused(&read(&mut agent, "pipe"), "named pipe");
    refused(&read(&mut agent, "/dev/zero"), "device");
    symlink("/dev/zero", dir.join("zero")).unwrap();
    refused(&read(&mut agent, "zero"), "device");
    symlink("self", dir.join("self")).unwrap();
    refused(&read(&mut agent, "self"), "Cannot use");
    fs::write(dir.join("binary"), b"abc\0def").unwrap();
    refused(&read(&mut agent, "binary"), "binary");
    fs::write(dir.join("wide"), b"\xff\xfea\0").unwrap();
    refused(&read(&mut agent, "wide"), "UTF-16");
    let sparse = File::create(dir.join("sparse")).unwrap();
    sparse.set_len(2 << 30).unwrap();
    refused(&read(&mut agent, "sparse"), "binary");

    // 2 GB behind a page of text: only the page is read.
    let mut big = File::create(dir.join("big")).unwrap();
    std::io::Write::write_all(&mut big, "text\n".repeat(5000).as_bytes()).unwrap();
    big.set_len(2 << 30).unwrap();
    let begun = Instant::now();
    let page = read(&mut agent, "big");
    assert!(text(&page).contains("  2000\ttext\n[Shown are lines 1 to 2000"), "{}", text(&page));
    assert_eq!(page.effects, [], "what was not seen whole has no stamp");
    let far = agent.run(Tool::Read, &json!({"file_path": "big", "offset": 900_000}));
    refused(&far, "not among the first");
    assert!(begun.elapsed() < Duration::from_secs(60));

    fs::write(dir.join("long"), format!("{}\nend\n", "x".repeat(10_000_000))).unwrap();
    let long = text(&read(&mut agent, "long"));
    assert!(long.len() < 2300, "{}", long.len());
    assert!(long.contains("[... 9998000 more bytes in this line]\n     2\tend\n"), "{long}");
    fs::write(dir.join("odd"), b"a\xffb\n").unwrap();
    assert!(text(&read(&mut agent, "odd")).starts_with("     1\ta\u{fffd}b\n[It is not valid UTF-8"));
    fs::write(dir.join("much"), format!("{}\n", "y".repeat(150)).repeat(1900)).unwrap();
    let much = text(&read(&mut agent, "much"));
    assert!(much.len() < 101_000 && much.contains("go on with offset"), "{}", much.len());
}

#[test]
fn goal_d2_read_shows_images_and_notebooks() {
    let mut agent = Agent::new();
    let dir = agent.dir().to_owned();
    for (bytes, kind) in [
        (b"\x89PNG\r\n\x1a\n....".as_slice(), "image/png"),
        (b"\xff\xd8\xff\xe0....", "image/jpeg"),
        (b"GIF89a....", "image/gif"),
        (b"RIFF\x10\0\0\0WEBP....", "image/webp"),
    ] {
        fs::write(dir.join("i.txt"), bytes).unwrap();
        let outcome = read(&mut agent, "i.txt");
        let Content::Blocks(blocks) = &outcome.content else { panic!("{outcome:?}") };
        let source = &blocks[0].0["source"];
        assert_eq!((blocks[0].kind(), source["media_type"].as_str().unwrap()), ("image", kind));
        use base64::Engine;
        let data =
            base64::engine::general_purpose::STANDARD.decode(source["data"].as_str().unwrap()).unwrap();
        assert_eq!(data, bytes);
    }
    let mut big = b"\x89PNG\r\n\x1a\n".to_vec();
    big.resize(4_000_000, 0);
    fs::write(dir.join("big.png"), big).unwrap();
    refused(&read(&mut agent, "big.png"), "3750000 is the most");

    let notebook = json!({"cells": [
        {"cell_type": "code", "id": "c1", "source": ["x = 1\n", "x"], "outputs": [
            {"output_type": "execute_result", "data": {"text/plain": ["1"], "image/png": "AAAA"}},
            {"output_type": "error", "ename": "E", "evalue": "why"}]},
        {"cell_type": "markdown", "source": "# hi"}], "nbformat": 4});
    fs::write(dir.join("n.ipynb"), notebook.to_string()).unwrap();
    let cells = "[Cell 0, id c1, code]\nx = 1\nx\n[Output of cell 0]\n1\n[also: image/png]\n[Output of cell 0]\nE: why\n\
                 [Cell 1, markdown]\n# hi\n";
    assert_eq!(text(&read(&mut agent, "n.ipynb")), cells);
    fs::write(dir.join("n.ipynb"), "{not json").unwrap();
    assert_eq!(text(&read(&mut agent, "n.ipynb")), "     1\t{not json\n");
}

#[test]
fn goal_d2_edit_needs_a_file_as_it_was_seen_and_one_place() {
    let mut agent = Agent::new();
    let path = agent.dir().join("f");
    fs::write(&path, "one\ntwo\ntwo\n").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o751)).unwrap();
    let edit = |old: &str, new: &str| json!({"file_path": "f", "old_string": old, "new_string": new});
    refused(&agent.run(Tool::Edit, &edit("one", "1")), "not read it yet");
    read(&mut agent, "f");
    refused(&agent.run(Tool::Edit, &edit("one", "one")), "the same");
    refused(&agent.run(Tool::Edit, &edit("", "x")), "not empty");
    refused(&agent.run(Tool::Edit, &edit("three", "x")), "is not in");
    refused(&agent.run(Tool::Edit, &edit("one\n  two", "x")), "like line 1");
    refused(&agent.run(Tool::Edit, &edit("two", "x")), "2 times, at lines 2, 3");
    let done = agent.does(Tool::Edit, &edit("one\n", "1\n1b\n"));
    assert!(!is_error(&done) && text(&done).contains("     2\t1b\n"), "{}", text(&done));
    let all = json!({"file_path": "f", "old_string": "two", "new_string": "2", "replace_all": true});
    assert!(text(&agent.does(Tool::Edit, &all)).starts_with("Changed 2 places"));
    assert_eq!(fs::read_to_string(&path).unwrap(), "1\n1b\n2\n2\n");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o751);

    // Touched only: it is as it was seen. Changed: it is not.
    File::options().append(true).open(&path).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
    assert!(!is_error(&agent.does(Tool::Edit, &edit("1b", "b"))));
    fs::write(&path, "other\n").unwrap();
    refused(&agent.run(Tool::Edit, &edit("other", "x")), "changed since");
    refused(&agent.run(Tool::Write, &json!({"file_path": "f", "content": "x"})), "changed since");
    assert_eq!(fs::read_to_string(&path).unwrap(), "other\n");
    assert_eq!(fs::read_dir(agent.dir()).unwrap().count(), 1, "no temporary file stays");
}

#[test]
fn goal_d2_edit_keeps_line_ends_mark_and_links() {
    let mut agent = Agent::new();
    let dir = agent.dir().to_owned();
    fs::create_dir(dir.join("real")).unwrap();
    fs::write(dir.join("real/f"), "\u{feff}a\r\nb\r\nlast").unwrap();
    symlink("real/f", dir.join("link")).unwrap();
    read(&mut agent, "link");
    let input = json!({"file_path": "link", "old_string": "a\nb", "new_string": "a\nnew\nb"});
    let done = agent.does(Tool::Edit, &input);
    assert!(!is_error(&done), "{}", text(&done));
    assert_eq!(fs::read_to_string(dir.join("real/f")).unwrap(), "\u{feff}a\r\nnew\r\nb\r\nlast");
    assert!(fs::symlink_metadata(dir.join("link")).unwrap().is_symlink());
    let input = json!({"file_path": "real/f", "old_string": "last", "new_string": "x\ny"});
    assert!(!is_error(&agent.does(Tool::Edit, &input)), "read by one name, edited by another");
    assert_eq!(fs::read_to_string(dir.join("real/f")).unwrap(), "\u{feff}a\r\nnew\r\nb\r\nx\r\ny");
    fs::write(dir.join("mixed"), "a\r\nb\nc").unwrap();
    read(&mut agent, "mixed");
    let input = json!({"file_path": "mixed", "old_string": "b\nc", "new_string": "B\nC"});
    agent.does(Tool::Edit, &input);
    assert_eq!(fs::read_to_string(dir.join("mixed")).unwrap(), "a\r\nB\nC");
    fs::write(dir.join("odd"), b"a\xff").unwrap();
    read(&mut agent, "odd");
    refused(
        &agent.run(Tool::Edit, &json!({"file_path": "odd", "old_string": "a", "new_string": "b"})),
        "UTF-8",
    );
}

#[test]
fn goal_d2_files_are_made_with_their_folders() {
    let mut agent = Agent::new();
    let dir = agent.dir().to_owned();
    let made = agent.does(Tool::Write, &json!({"file_path": "a/b/c.txt", "content": "hi"}));
    assert!(!is_error(&made), "{}", text(&made));
    let again = agent.does(Tool::Write, &json!({"file_path": "a/b/c.txt", "content": "ho"}));
    assert!(text(&again).starts_with("Replaced"), "what it wrote it has seen");
    assert_eq!(fs::read_to_string(dir.join("a/b/c.txt")).unwrap(), "ho");
    let edit = json!({"file_path": "new", "old_string": "", "new_string": "x"});
    assert!(!is_error(&agent.does(Tool::Edit, &edit)));
    refused(&agent.run(Tool::Write, &json!({"file_path": "a", "content": ""})), "is a folder");
    refused(&agent.run(Tool::Write, &json!({"file_path": "new/x", "content": ""})), "Cannot change");
    refused(&agent.run(Tool::Write, &json!({"file_path": "d/", "content": ""})), "is a folder");
    let gone = json!({"file_path": "gone", "old_string": "x", "new_string": "y"});
    refused(&agent.run(Tool::Edit, &gone), "There is no file");
    nix::unistd::mkfifo(&dir.join("pipe"), nix::sys::stat::Mode::from_bits_truncate(0o600)).unwrap();
    refused(&agent.run(Tool::Write, &json!({"file_path": "pipe", "content": ""})), "named pipe");
}

#[test]
fn goal_d2_a_link_swapped_after_the_judgement_leads_nowhere_else() {
    let mut agent = Agent::new();
    let dir = agent.dir().to_owned();
    fs::create_dir(dir.join("safe")).unwrap();
    fs::create_dir(dir.join("secret")).unwrap();
    fs::write(dir.join("secret/f"), "secret").unwrap();
    symlink("safe", dir.join("way")).unwrap();
    let input = json!({"file_path": "way/../way/f", "content": "new"});
    let judged = targets(Tool::Write, &input, &agent.view);
    assert_eq!((judged.len(), judged[0].access), (1, Access::Write));
    assert_eq!(judged[0].as_given, dir.join("way/../way/f"));
    assert_eq!(judged[0].resolved, dir.join("safe/f"));
    agent.view.judged = judged;

    // The link that was given now leads elsewhere: the call goes where it was judged to go.
    fs::remove_file(dir.join("way")).unwrap();
    symlink("secret", dir.join("way")).unwrap();
    assert!(!is_error(&agent.does(Tool::Write, &input)));
    assert_eq!(fs::read_to_string(dir.join("safe/f")).unwrap(), "new");
    assert_eq!(fs::read_to_string(dir.join("secret/f")).unwrap(), "secret");

    // The folder itself became a link: refused.
    fs::rename(dir.join("safe"), dir.join("old")).unwrap();
    symlink("secret", dir.join("safe")).unwrap();
    refused(&agent.run(Tool::Write, &input), "became a link");
    agent.view.judged = Vec::new();
    let read = json!({"file_path": "old/f"});
    agent.view.judged = targets(Tool::Read, &read, &agent.view);
    let inode = fs::metadata(dir.join("old/f")).unwrap().ino();
    fs::rename(dir.join("old/f"), dir.join("old/g")).unwrap();
    symlink("../secret/f", dir.join("old/f")).unwrap();
    refused(&agent.run(Tool::Read, &read), "became a link");
    assert_eq!(fs::metadata(dir.join("old/g")).unwrap().ino(), inode);
    assert_eq!(fs::read_to_string(dir.join("secret/f")).unwrap(), "secret");
}
