#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <vecsum.h>

static PyObject *error_type;

/* Raises vecsum.Error(code, message). */
static PyObject *failed(int code) {
    PyObject *arguments = Py_BuildValue("(is)", code, vecsum_error(code));
    if (arguments) {
        PyErr_SetObject(error_type, arguments);
        Py_DECREF(arguments);
    }
    return NULL;
}

static PyObject *library_version(PyObject *module, PyObject *unused) {
    return PyUnicode_FromString(vecsum_version());
}

static PyObject *devices(PyObject *module, PyObject *unused) {
    int count, code = vecsum_devices(&count);
    return code ? failed(code) : PyLong_FromLong(count);
}

static PyObject *add(PyObject *module, PyObject *arguments) {
    Py_buffer a, b;
    PyObject *result = NULL;
    if (!PyArg_ParseTuple(arguments, "y*y*", &a, &b)) return NULL;
    if (a.len != b.len || a.len % sizeof(float)) {
        PyErr_SetString(PyExc_ValueError, "expected two buffers of floats of the same length");
    } else if ((result = PyBytes_FromStringAndSize(NULL, a.len))) {
        int code = vecsum_add(a.buf, b.buf, (float *)PyBytes_AS_STRING(result), a.len / sizeof(float));
        if (code) {
            Py_CLEAR(result);
            failed(code);
        }
    }
    PyBuffer_Release(&a);
    PyBuffer_Release(&b);
    return result;
}

static PyMethodDef methods[] = {
    {"library_version", library_version, METH_NOARGS, "The version of libvecsum."},
    {"devices", devices, METH_NOARGS, "The number of GPUs."},
    {"add", add, METH_VARARGS, "The sum of two buffers of floats."},
    {0},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_native", NULL, -1, methods};

PyMODINIT_FUNC PyInit__native(void) {
    PyObject *module = PyModule_Create(&definition);
    if (!module) return NULL;
    error_type = PyErr_NewException("vecsum.Error", PyExc_RuntimeError, NULL);
    if (PyModule_AddObjectRef(module, "Error", error_type) < 0) Py_CLEAR(module);
    return module;
}
