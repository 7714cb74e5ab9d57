//! The exception in the lines after the first.

/// What the first line of a stack trace says.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Exception<'a> {
    pub(super) kind: &'a str,
    pub(super) message: Option<&'a str>,
}

/// The first exception that a line names from its start on: `java.io.IOException: Connection reset`, or
/// `ValueError: ...` below a Python traceback. Frames are indented, and so never taken for one.
pub(super) fn find(lines: &str) -> Option<Exception<'_>> {
    lines.lines().find_map(read)
}

fn read(line: &str) -> Option<Exception<'_>> {
    let line = line.strip_prefix("Caused by: ").unwrap_or(line).trim_end();
    let (kind, message) = match line.split_once(": ") {
        Some((kind, message)) => (kind, Some(message)),
        None => (line.trim_end_matches(':'), None),
    };
    is_exception_type(kind).then_some(Exception { kind, message })
}

/// Longest exception type, in bytes; a longer word is something else.
const TYPE_BYTES_MAX: usize = 256;

/// How the types end that have no package before them.
const ENDINGS: [&str; 5] = ["Exception", "Error", "Warning", "Interrupt", "Exit"];

/// Whether this is a class with its package, or a name that ends as exceptions do.
fn is_exception_type(name: &str) -> bool {
    let is_identifier = |part: &str| {
        part.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$'))
            && part.bytes().next().is_some_and(|byte| !byte.is_ascii_digit())
    };
    let class = name.rsplit('.').next().unwrap_or(name);
    name.len() <= TYPE_BYTES_MAX
        && name.split('.').all(is_identifier)
        && class.bytes().next().is_some_and(|byte| byte.is_ascii_uppercase())
        && (class.len() < name.len() || ENDINGS.iter().any(|ending| class.ends_with(ending)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(lines: &str) -> Option<&str> {
        find(lines).map(|exception| exception.kind)
    }

    #[test]
    fn the_first_line_that_names_an_exception_counts() {
        let java = "java.io.IOException: Connection reset\n\tat a.b.C.d(C.java:1)\nCaused by: java.lang.Error: x\n";
        assert_eq!(find(java), Some(Exception { kind: "java.io.IOException", message: Some("Connection reset") }));
        assert_eq!(kind("java.lang.NullPointerException\r\n\tat x.Y"), Some("java.lang.NullPointerException"));
        assert_eq!(kind("Caused by: a.Outer$Inner: x"), Some("a.Outer$Inner"));
        let python = "Traceback (most recent call last):\n  File \"a.py\", line 1, in f\nKeyError: 'x'";
        assert_eq!(find(python), Some(Exception { kind: "KeyError", message: Some("'x'") }));
        assert_eq!(kind("System.IO.IOException: disk\n   at X.Y()"), Some("System.IO.IOException"));
    }

    #[test]
    fn other_lines_name_none() {
        for lines in [
            "",
            "\n\n",
            "\tat java.io.Reader: x",
            "more of the text: Error",
            "a.b.c: x",
            "Note: x",
            "1.Error",
            "a..Error",
            ": x",
            "Ünïcode.Error: x",
        ] {
            assert_eq!(kind(lines), None, "{lines}");
        }
    }
}
