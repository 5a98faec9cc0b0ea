//! Tests the wheels of the same build: installs them with pip and uv for Python 3.14, with the
//! library from its RPM.

use super::build::{Small, small};
use super::{lab, tools};

#[test]
fn pip_and_uv_install_wheels_for_python_3_14() {
    let Small { workspace, .. } = small();
    let environment = tools::environment("python-tools", include_str!("../support/tools.txt"));
    // uv only needs the C library, so it runs there too.
    std::fs::copy(environment.join("bin/uv"), workspace.holder().join("uv")).unwrap();
    let library = format!("rpm -i {}/build/fedora-43/repository/vecsum-1*.rpm", lab::WORKSPACE);
    let script = "python3 -m venv /tmp/with-pip\n\
         index=file://$PWD/build/fedora-43/index/simple\n\
         /tmp/with-pip/bin/pip --isolated install --no-cache-dir --index-url $index vecsum-report >&2\n\
         /tmp/with-pip/bin/pip check >&2\n\
         ../uv venv --no-config --offline --no-cache --python /usr/bin/python3 /tmp/with-uv >&2\n\
         ../uv pip install --no-config --no-cache --python /tmp/with-uv --default-index $index vecsum-report >&2\n\
         for tool in pip uv; do\n\
             echo $tool\n\
             /tmp/with-$tool/bin/vecsum-report || echo ended with $?\n\
             /tmp/with-$tool/bin/python -c 'import sys, vecsum._native as n; print(sys.version_info[:2], n.__file__)'\n\
         done";
    let ran = lab::script_after(workspace, &library, script);
    let output = &ran.exits(0).stdout;
    for tool in ["pip", "uv"] {
        let native = format!(
            "(3, 14) /tmp/with-{tool}/lib/python3.14/site-packages/vecsum/_native.cpython-314"
        );
        assert!(
            output.contains(&native) || output.contains(&native.replace("/lib/", "/lib64/")),
            "{output}"
        );
    }
    let version = "vecsum 0.3.0+rocm6.4.gfx1151.1\nvecsum-report 2.0.1+rocm6.4.gfx1151.1\n";
    assert_eq!(output.matches(version).count(), 2, "{output}");
}
