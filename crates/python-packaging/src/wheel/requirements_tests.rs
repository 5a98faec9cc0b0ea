use super::*;
use std::time::Instant;

fn pins(list: &[(&str, &str)]) -> Pins {
    let version = |text| Version::from_str(text).unwrap();
    list.iter().map(|(name, text)| ((*name).to_owned(), version(text))).collect()
}

fn stack() -> Pins {
    pins(&[
        ("torch", "2.11.0+rocm7.14.gfx1151.3"),
        ("flash-attn", "2.8.3+rocm7.14.gfx1151.1"),
        ("epoch", "1!2.0+rocm7.14.gfx1151.1"),
    ])
}

/// Rewrites one requirement; returns the result, and upstream's requirement if it is unmet.
fn one(requirement: &str) -> (String, Option<String>) {
    let text =
        format!("Name: x\nRequires-Dist: {requirement}\nVersion: 1\n\nRequires-Dist: torch\n");
    let Rewritten { text, unmet } = rewrite(&text, &stack(), &[], None).unwrap();
    let rest = text.strip_prefix("Name: x\nRequires-Dist: ").unwrap();
    let value = rest.strip_suffix("\nVersion: 1\n\nRequires-Dist: torch\n").unwrap();
    assert!(unmet.len() < 2, "{unmet:?}");
    (
        value.to_owned(),
        unmet.into_iter().next().map(|(wanted, version)| format!("{wanted} | {version}")),
    )
}

#[test]
fn pins_stack_requirements_and_keeps_name_extras_marker() {
    let torch = "==2.11.0+rocm7.14.gfx1151.3";
    for (before, after) in [
        ("torch", format!("torch{torch}")),
        ("torch>=2.11", format!("torch{torch}")),
        ("torch >= 2.9 , < 3", format!("torch{torch}")),
        ("torch (>=2.9)", format!("torch{torch}")),
        ("torch==2.11.0", format!("torch{torch}")),
        ("torch<=2.11.0", format!("torch{torch}")),
        ("torch~=2.11.0", format!("torch{torch}")),
        ("torch==2.*", format!("torch{torch}")),
        ("TORCH[Opt_A, opt.b]>=2; extra=='x'", format!("TORCH[Opt_A, opt.b]{torch}; extra=='x'")),
        ("torch [a] (>=2) ;extra == 'x;y'", format!("torch [a]{torch} ;extra == 'x;y'")),
        ("torch ; sys_platform == \"linux\"", format!("torch{torch} ; sys_platform == \"linux\"")),
        ("torch[]", format!("torch[]{torch}")),
        ("torch @ https://example.org/a;b.whl#sha256=0", format!("torch{torch}")),
        (
            "torch[a]@https://example.org/a.whl ; python_version > '3'",
            format!("torch[a]{torch} ; python_version > '3'"),
        ),
        ("Flash__Attn", "Flash__Attn==2.8.3+rocm7.14.gfx1151.1".to_owned()),
        ("epoch", "epoch==1!2.0+rocm7.14.gfx1151.1".to_owned()),
    ] {
        assert_eq!(one(before), (after, None), "{before}");
    }
    for other in
        ["torchvision>=0.2", "numpy", "torch-x[torch]; extra == 'torch'", "a @ https://torch/x"]
    {
        assert_eq!(one(other), (other.to_owned(), None));
    }
}

#[test]
fn reports_requirements_that_the_stack_does_not_satisfy() {
    for wanted in ["torch==2.9.0", "torch<2.11 ; extra == 'x'", "torch>2.11.0", "torch==2.11.0+cpu"]
    {
        let (after, unmet) = one(wanted);
        assert!(after.starts_with("torch==2.11.0+rocm7.14.gfx1151.3"), "{after}");
        assert_eq!(unmet, Some(format!("{wanted} | 2.11.0")));
    }
}

#[test]
fn ignores_requirements_for_other_environments() {
    let here = markers((3, 14), "x86_64").unwrap();
    for (marker, reported) in [
        ("sys_platform == 'win32'", false),
        ("platform_machine == 'aarch64' and extra == 'x'", false),
        ("python_version < '3.10'", false),
        ("sys_platform == 'linux' and extra == 'x'", true),
        ("extra == 'x' or extra == 'y'", true),
        ("platform_system == 'Linux' and python_version >= '3.14'", true),
        ("sys_platform == 'win32' or extra == 'x'", true),
    ] {
        let text = format!("Requires-Dist: torch==2.9 ; {marker}\n");
        let rewritten = rewrite(&text, &stack(), &[], Some(&here)).unwrap();
        assert_eq!(rewritten.unmet.len(), usize::from(reported), "{marker}");
        assert_eq!(rewritten.text, text.replace("==2.9", "==2.11.0+rocm7.14.gfx1151.3"));
    }
}

#[test]
fn joins_requirements_into_one_line() {
    let text =
        "Requires-Dist: numpy\n >=1\r\n\t;  extra == 'x'\nRequires-Dist:\n a\nSummary: b\n c\n";
    let expected = "Requires-Dist: numpy >=1 ; extra == 'x'\nRequires-Dist:\n a\nSummary: b\n c\n";
    assert_eq!(rewrite(text, &Pins::new(), &[], None).unwrap().text, expected);
}

#[test]
fn leaves_other_text_unchanged() {
    let text = "Metadata-Version: 2.4\r\nName: x\r\nrequires-dist:torch>=2,\r\n\t<3\r\n ; extra == 'a'\r\n\
        Provides-Extra: a\r\nRequires-Dist: torch ==2.1; python_version<'3.9'\r\n\
        Requires-Dist:torch==2.2; python_version >= '3.9'\r\nLicense: torch>=1\r\n Requires-Dist: torch\r\n\
        Requires-External: torch\r\n\r\nRequires-Dist: torch\r\n\u{fffd}";
    let pinned = rewrite(text, &stack(), &[], None).unwrap();
    let version = "==2.11.0+rocm7.14.gfx1151.3";
    let expected = text
        .replace("torch>=2,\r\n\t<3\r\n ;", &format!("torch{version} ;"))
        .replace("torch ==2.1;", &format!("torch{version};"))
        .replace("torch==2.2;", &format!("torch{version};"));
    assert_eq!(pinned.text, expected);
    assert_eq!(pinned.unmet.len(), 2);
    let on_one_line = text.replace("2,\r\n\t<3\r\n ;", "2, <3 ;");
    assert_eq!(rewrite(text, &Pins::new(), &[], None).unwrap().text, on_one_line);
    let again = rewrite(&pinned.text, &stack(), &[], None).unwrap();
    assert_eq!((again.text, again.unmet), (expected, Vec::new()));
}

#[test]
fn rejects_invalid_requirements_with_their_line() {
    for (requirement, reason) in [
        ("", "does not begin with a name"),
        ("-x", "does not begin with a name"),
        ("a-", "does not begin with a name"),
        ("a- >= 1", "does not begin with a name"),
        ("a.[x]", "does not begin with a name"),
        ("a[x-]", "an extra is not a name"),
        ("a[x,,y]", "an extra is not a name"),
        ("a[x", "is not closed"),
        ("a b", "Expected one of"),
        ("a >=", ""),
        ("a >= x", ""),
        ("a >= 1 2", ""),
        ("a; bogus == '1'", ""),
        ("a; extra ==", ""),
        ("a @ ", "Expected URL"),
        ("a @ https://example.org/a b", "a space"),
        ("a @ https://example.org/a; extra == 'x'", ""),
        ("a.tar.gz", ""),
        ("\u{1b}[2Jä", "`\\u{1b}[2Jä` is not a requirement"),
    ] {
        let text = format!("Name: x\nSummary: y\n z\nRequires-Dist: {requirement}\n\n");
        for error in [
            rewrite(&text, &Pins::new(), &[], None).unwrap_err(),
            requirements(&text).unwrap_err().clone(),
        ] {
            assert!(
                error.starts_with("line 4: `") && error.contains(reason),
                "{requirement}: {error}"
            );
            assert!(!error.contains(['\n', '\u{1b}']), "{error:?}");
        }
    }
    assert!(rewrite("Name: x\n", &Pins::new(), &["?".to_owned()], None).is_err());
}

#[test]
fn added_requirements_replace_upstreams() {
    let extra = ["rocm[libraries]==7.14.*".to_owned(), "torch==1".to_owned()];
    let added = |text: &str| rewrite(text, &stack(), &extra, None).unwrap().text;
    let lines = "Requires-Dist: rocm[libraries]==7.14.*\nRequires-Dist: torch==1\n";
    assert_eq!(added("Name: x\n\nbody\n"), format!("Name: x\n{lines}\nbody\n"));
    assert_eq!(added("Name: x"), format!("Name: x\n{lines}"));
    assert_eq!(
        added("Name: x\r\n\r\n"),
        format!("Name: x\r\n{lines}\r\n").replace(['\r'], "").replace('\n', "\r\n")
    );
    let text = "A: b\nRequires-Dist: ROCm[devel]==6\n ; extra=='x'\nC: d\nRequires-Dist: rocm\n\
        Requires-Dist: Rocm [Libraries] (==7.1)\nRequires-Dist: rocm[profiler]>=7\nRequires-Dist: a";
    let expected = "A: b\nRequires-Dist: rocm[libraries]==7.14.*\n\
        Requires-Dist: ROCm[devel]==7.14.* ; extra=='x'\nC: d\n\
        Requires-Dist: rocm[profiler]==7.14.*\nRequires-Dist: a\nRequires-Dist: torch==1\n";
    assert_eq!(added(text), expected);
    assert_eq!(added(expected), expected);
    assert_eq!(
        added("Requires-Dist: torch"),
        lines.lines().rev().map(|l| format!("{l}\n")).collect::<String>()
    );
}

#[test]
fn collects_required_names() {
    let names =
        required_names("Requires-Dist: A_b>1\nRequires-Dist: a.B; extra=='x'\nRequires-Dist: c\n");
    assert_eq!(names.unwrap().into_iter().collect::<Vec<_>>(), ["a-b", "c"]);
}

#[test]
fn handles_truncated_and_changed_texts() {
    let text = "Name: x\r\nRequires-Dist: torch[a, b-c] (>=2.9,!=2.10.*) ; (python_version > '3' and \
        extra == \"x\") or os_name in 'a b'\r\nRequires-Dist: ä @ https://x/y ; extra=='z'\n\
        Requires-Dist: torch@git+https://u:p@h/r@v#egg=x ; extra == 'k'\n and 'linux' in sys_platform\n\n";
    let text = text.replace("ä", "torch");
    let extra = ["rocm[libraries]==7.14.*".to_owned()];
    let mut good = 0;
    let mut attempt = |bytes: &[u8]| {
        if let Ok(text) = std::str::from_utf8(bytes)
            && let Ok(rewritten) = rewrite(text, &stack(), &extra, None)
        {
            good += 1;
            let found =
                requirements(&rewritten.text).unwrap_or_else(|error| panic!("{text:?}: {error}"));
            assert_eq!(found.len(), requirements(text).unwrap().len() + 1, "{text:?}");
            assert!(fields(&rewritten.text).all(|field| !field.is_folded()), "{text:?}");
        }
    };
    for end in 0..text.len() {
        attempt(&text.as_bytes()[..end]);
    }
    let mut bytes = text.clone().into_bytes();
    for at in 0..bytes.len() {
        let before = bytes[at];
        for byte in [
            0,
            0x7f,
            0xff,
            before ^ 1,
            before ^ 32,
            b' ',
            b'\n',
            b'\r',
            b';',
            b'[',
            b']',
            b'-',
            b'@',
            b'(',
            b'\'',
        ] {
            bytes[at] = byte;
            attempt(&bytes);
        }
        bytes[at] = before;
    }
    assert!(good > 1000, "only {good} were read");
}

#[test]
fn hostile_texts_take_linear_time() {
    let started = Instant::now();
    let many: String = (0..10_000)
        .map(|n| format!("Requires-Dist: torch>={n}; extra == 'e{}'\n", n % 7))
        .collect();
    let rewritten = rewrite(&many, &stack(), &["rocm".to_owned()], None).unwrap();
    assert_eq!(rewritten.text.lines().count(), 10_001);
    assert_eq!(rewritten.unmet.len(), 10_000 - 3);
    let long = |head: &str, unit: &str| {
        format!("Requires-Dist: {head}{}", unit.repeat((1 << 20) / unit.len()))
    };
    for (text, good) in [
        (long("torch>=", "1"), false),
        (long("torch @ https://x/", " "), true),
        (long("torch ;", "("), false),
        (long("torch[", "a,"), false),
        (long("torch", "\n "), true),
        (long("", " "), false),
        (long("torch\n", " ;\n"), false),
    ] {
        assert_eq!(rewrite(&text, &stack(), &[], None).is_ok(), good, "{}", &text[..40]);
    }
    assert!(
        rewrite(&format!("Name: x\nSummary: {}\n\n", "y".repeat(1 << 20)), &stack(), &[], None)
            .is_ok()
    );
    // Quadratic time would take an hour.
    assert!(started.elapsed().as_secs() < 300, "{:?}", started.elapsed());
}

#[test]
fn removes_requirements_and_keeps_all_other_bytes() {
    let text = "Name: x\nRequires-Dist: Amd_Quark>=1;\n os_name == 'posix'\nrequires-dist: b\n\
                Requires-Dist: amd.quark[y]\n\nRequires-Dist: amd-quark\n";
    let kept = without(text, &["amd-quark".to_owned()]).unwrap();
    assert_eq!(kept, "Name: x\nrequires-dist: b\n\nRequires-Dist: amd-quark\n");
    assert_eq!(without(text, &[]).unwrap(), text);
    assert!(without("Requires-Dist: ?\n", &["a".to_owned()]).is_err());
}

#[test]
fn accepts_requirements_up_to_the_longest() {
    let of_length = |length| requirements(&format!("Requires-Dist: {}\n", "x".repeat(length)));
    assert!(of_length(MAX_LENGTH).is_ok());
    let error = of_length(MAX_LENGTH + 1).unwrap_err();
    assert!(error.contains("it has 4097 bytes, more than 4096"), "{error}");
}

#[test]
fn rejects_non_ascii() {
    for text in
        ["torch ; python_version >= \"3.9\" an\u{e4} extra == 'x'", "torch ; extra == '\u{e4}'"]
    {
        let error = requirement(text).unwrap_err();
        assert!(error.ends_with("it contains non-ASCII characters"), "{error}");
    }
}

#[test]
fn rejects_exponential_markers() {
    let pairs = |count| {
        let pairs: Vec<String> =
            (0..count).map(|n| format!("(extra == 'a{n}' and extra == 'b{n}')")).collect();
        format!("Requires-Dist: x; {}\n", pairs.join(" or "))
    };
    assert!(requirements(&pairs(MAX_MIXED + 1)).is_ok());
    let nested = format!("Requires-Dist: x; {}os_name == 'a'{}\n", "(".repeat(40), ")".repeat(40));
    let list = vec!["extra == 'a'"; 200].join(" or ");
    for text in [pairs(MAX_MIXED + 2), nested, format!("Requires-Dist: x; {list}\n")] {
        assert!(requirements(&text).unwrap_err().contains("marker is too large"), "{text}");
    }
    let words =
        "Requires-Dist: x; extra == 'and or and or and or and or and or and or and or and or'\n";
    assert!(requirements(words).is_ok());
}
