//! Implements a CPython module using only the stable C ABI.

use std::ffi::{c_char, c_int, c_long, c_void};
use std::ptr::null_mut;

/// Source: CPython, Include/moduleobject.h.
#[repr(C)]
struct ModuleDef {
    references: isize,
    kind: *mut c_void,
    init: *mut c_void,
    index: isize,
    copy: *mut c_void,
    name: *const c_char,
    doc: *const c_char,
    size: isize,
    rest: [*mut c_void; 5],
}

extern "C" {
    fn PyModule_Create2(def: *mut ModuleDef, version: c_int) -> *mut c_void;
    fn PyModule_AddIntConstant(module: *mut c_void, name: *const c_char, value: c_long) -> c_int;
}

static mut DEF: ModuleDef = ModuleDef {
    references: 1,
    kind: null_mut(),
    init: null_mut(),
    index: 0,
    copy: null_mut(),
    name: c"fast".as_ptr(),
    doc: null_mut(),
    size: -1,
    rest: [null_mut(); 5],
};

#[no_mangle]
pub extern "C" fn PyInit_fast() -> *mut c_void {
    unsafe {
        let module = PyModule_Create2(&raw mut DEF, 1013);
        if !module.is_null() {
            PyModule_AddIntConstant(module, c"seven".as_ptr(), mini::seven().into());
        }
        module
    }
}
