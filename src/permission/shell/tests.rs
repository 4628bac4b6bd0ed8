//! What is made of command lines.

use super::{RedirectKind, Script, parse};

/// Commands by their words, `|` between; redirections as `<file`, `>file`; assignments in front.
fn shown(script: &Script) -> String {
    let one = |command: &super::Simple| {
        let assigned = command.assignments.iter().map(|one| format!("{}:=", one.name));
        let words = command
            .words
            .iter()
            .map(|word| if word.is_literal() { word.text.clone() } else { format!("~{}", word.raw) });
        let redirects = command.redirects.iter().map(|redirect| match redirect.kind {
            RedirectKind::Read => format!("<{}", redirect.target.text),
            RedirectKind::Write => format!(">{}", redirect.target.text),
            RedirectKind::Copy => format!("&{}", redirect.target.text),
            RedirectKind::HereDocument => "<<".to_owned(),
            RedirectKind::HereString => "<<<".to_owned(),
        });
        assigned.chain(words).chain(redirects).collect::<Vec<_>>().join(" ")
    };
    script.commands.iter().map(one).collect::<Vec<_>>().join(" | ")
}

#[test]
fn every_command_is_found() {
    for (line, expected) in [
        ("", ""),
        ("# x; rm", ""),
        ("ls -la", "ls -la"),
        ("a && b || c; d | e |& f & g\nh", "a | b | c | d | e | f | g | h"),
        ("a 'b && c' \"d; e\" f\\ g", "a b && c d; e f g"),
        ("a # b\nc", "a | c"),
        ("a#b", "a#b"),
        ("a \\\n && b", "a | b"),
        ("ec\\\nho x", "echo x"),
        ("(a; b) && { c; }", "a | b | c"),
        ("! a", "a"),
        ("time -p a", "a"),
        ("echo $(a) `b` \"$(c \"$(d)\")\"", "a | b | d | c ~\"$(d)\" | echo ~$(a) ~`b` ~\"$(c \"$(d)\")\""),
        ("echo ${X:-$(a)}", "a | echo ~${X:-$(a)}"),
        ("cat <(a) >(b)", "a | b | cat ~<(a) ~>(b)"),
        ("echo $((1 + 2))", "echo ~$((1 + 2))"),
        ("A=b C=\"$(d)\" e", "d | A:= C:= e"),
        ("A=(b $(c))", "c | A:="),
        ("a > b >> c 2> d &> e >| f < g 1<> h", "a >b >c >d >e >f <g >h"),
        ("a 2>&1 >&2 3>&- <&0", "a &1 &2 &- &0"),
        ("a >& f", "a >f"),
        ("> f a", "a >f"),
        ("{ a; } > f", "a | >f"),
        ("cat <<E\n$(a) ${X}\nE\nb", "cat << | a | b"),
        ("cat <<'E'\n$(a)\nE\nb", "cat << | b"),
        ("cat <<-E | b\n\tx\n\tE", "cat << | b"),
        ("cat <<< $(a)", "a | cat <<<"),
        ("for x in a $(b); do c $x; done", "x:= | b | c ~$x"),
        ("while a; do b; done < f", "a | b | <f"),
        ("until a\ndo b\ndone", "a | b"),
        ("if a; then b; elif c; then d; else e; fi", "a | b | c | d | e"),
        ("case $x in a|b) c ;; (d) e;& *) f; esac", "c | e | f"),
        ("f() { a; }; function g { b; }", "a | b"),
        ("[[ -f a && $x == b* ]] && c", "[[ -f a ~$x == ~b* | c"),
        ("$'a\\x62\\n'", "ab\n"),
        ("a ~/b c~ {} {x} {a,b} [ ] [a] x*", "a ~~/b c~ {} {x} ~{a,b} [ ] ~[a] ~x*"),
        ("a 2", "a 2"),
        ("a 2b>c", "a 2b >c"),
        ("x=1", "x:="),
        ("a x=1 'y=2'", "a x=1 y=2"),
        ("echo }", "echo }"),
        ("echo if then", "echo if then"),
        ("$(<f)", "<f | ~$(<f)"),
    ] {
        let script = parse(line);
        assert_eq!((script.unsure.as_deref(), shown(&script)), (None, expected.to_owned()), "{line}");
    }
}

#[test]
fn case_c099_what_cannot_be_certain_is_unsure() {
    for line in [
        "a 'b",
        "a \"b",
        "a `b",
        "a $(b",
        "a ${b",
        "a &&",
        "a ||",
        "a |",
        "&& a",
        "; a",
        "a ;; b",
        "( )",
        "{ }",
        "a )",
        "a }; }",
        "if a; fi",
        "if a; then b",
        "for x in a; b; done",
        "for 1 in a; do b; done",
        "case x in a) b",
        "echo $X\\",
        "a(b)",
        "a () b",
        "a \\$(b)",
        "a <",
        "a > > b",
        "cat <<E\nx",
        "cat <<E",
        "coproc a",
        "echo ${x@P}",
        "echo ${!x}",
        "echo ${a[$(b)]}",
        "echo ${a[x]}",
        "echo $((1+$(a)))",
        "echo $((x + 1))",
        "echo $((a[0]))",
        "(( x = 1 ))",
        "echo $[1+1]",
        "a[$(b)]=c",
        "echo ${x:y}",
        "a\rb",
        "a\u{a0}b",
        "a\0b",
        "echo \u{202e}x",
        "then",
        "a; done",
        "[[ a b ]]",
        "[[ a",
        "echo !(x)",
        "echo ${}",
        "{fd}>x a",
        "i\\\nf a; then b; fi",
        "a <& $x",
        "for ((;;)); do a; done",
        "$(",
        "function f",
        "select x in a; do b",
    ] {
        assert!(parse(line).unsure.is_some(), "{line}");
    }
    assert!(parse(&"a ".repeat(6000)).unsure.is_some());
    assert!(parse(&"$(".repeat(100)).unsure.is_some());
    assert!(parse(&"(".repeat(3000)).unsure.is_some());
}

#[test]
fn commands_are_found_in_what_is_unsure() {
    for line in ["a 'b; rm x", "rm x &&", "rm x; )", "echo $((x)) && rm x", "if rm x; fi", "cat <<E\n$(rm x)"]
    {
        let script = parse(line);
        assert!(script.unsure.is_some() && shown(&script).contains("rm x"), "{line}: {}", shown(&script));
    }
}

#[test]
fn nesting_takes_no_longer_than_its_square() {
    for piece in ["$((", "$(", "${a:-", "\"$(", "<<a ", "[[ ", "((", "{ ", "if "] {
        let text = piece.repeat(3000);
        assert!(parse(&text).unsure.is_some(), "{piece}");
    }
    assert!(parse(&"`".repeat(9000)).unsure.is_none(), "pairs, which run nothing");
}
