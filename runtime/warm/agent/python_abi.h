/* The functions of the interpreter and its C library that the agent uses. They are declared here, because the
 * build does not need headers of either: one agent serves every CPython that agent.c has a layout for. The
 * dynamic linker of the process finds the symbols. Sources: Include/ of CPython 3.9 to 3.15. All but the last
 * group are documented or in the limited API. */
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef struct _object PyObject;
typedef ptrdiff_t Py_ssize_t;
typedef struct _is PyInterpreterState;
typedef struct _ts PyThreadState;

typedef PyObject *PyCFunction(PyObject *self, PyObject *args);

typedef struct {
    const char *name;
    PyCFunction *function;
    int flags;
    const char *doc;
} PyMethodDef;
#define METH_VARARGS 0x0001
#define METH_O       0x0008

/* As in object.h and moduleobject.h without Py_TRACE_REFS and Py_GIL_DISABLED. */
typedef struct {
    Py_ssize_t refcount;
    void *type;
    void *init;
    Py_ssize_t index;
    PyObject *copy;
    const char *name;
    const char *doc;
    Py_ssize_t size;
    PyMethodDef *methods;
    void *slots, *traverse, *clear, *free;
} PyModuleDef;

/* cpython/initconfig.h */
typedef struct {
    int type;
    const char *function;
    const char *message;
    int exit_code;
} PyStatus;

typedef struct {
    Py_ssize_t length;
    wchar_t **items;
} PyWideStringList;

PyObject *PyModuleDef_Init(PyModuleDef *def);
int PyArg_ParseTuple(PyObject *args, const char *format, ...);
PyObject *Py_BuildValue(const char *format, ...);
PyObject *PyDict_GetItemString(PyObject *dict, const char *key);
PyObject *PyObject_CallObject(PyObject *callable, PyObject *args);
int PyObject_IsTrue(PyObject *object);
int PyObject_GC_IsTracked(PyObject *object);
void PyObject_GC_UnTrack(void *object);
void PyObject_GC_Track(void *object);
void *PyCapsule_GetPointer(PyObject *capsule, const char *name);
PyObject *PyCapsule_New(void *pointer, const char *name, void (*destructor)(PyObject *capsule));
int PyDict_SetItemString(PyObject *dict, const char *key, PyObject *item);
PyObject *PyTuple_GetItem(PyObject *tuple, Py_ssize_t index);
PyObject *PyList_New(Py_ssize_t size);
int PyList_Append(PyObject *list, PyObject *item);
int PyList_SetItem(PyObject *list, Py_ssize_t index, PyObject *item);
PyObject *PyList_GetItem(PyObject *list, Py_ssize_t index);
Py_ssize_t PyList_Size(PyObject *list);
PyObject *PyBytes_FromStringAndSize(const char *text, Py_ssize_t size);
int PyBytes_AsStringAndSize(PyObject *bytes, char **text, Py_ssize_t *size);
PyObject *PyUnicode_DecodeFSDefault(const char *text);
const char *PyUnicode_AsUTF8AndSize(PyObject *text, Py_ssize_t *size);
PyObject *PyObject_Str(PyObject *object);
wchar_t *PyUnicode_AsWideCharString(PyObject *text, Py_ssize_t *size);
void PyErr_SetString(PyObject *type, const char *text);
PyObject *PyErr_SetFromErrno(PyObject *type);
long PyLong_AsLong(PyObject *number);
PyObject *PyErr_Occurred(void);
void PyErr_Clear(void);
void PyErr_Fetch(PyObject **type, PyObject **value, PyObject **traceback);
/* cpython/objimpl.h; builds without pymalloc have no such functions. */
typedef struct {
    void *context;
    void *(*allocate)(void *context, size_t size);
    void (*free)(void *context, void *arena, size_t size);
} PyObjectArenaAllocator;
__attribute__((weak)) void PyObject_GetArenaAllocator(PyObjectArenaAllocator *allocator);
__attribute__((weak)) void PyObject_SetArenaAllocator(PyObjectArenaAllocator *allocator);

typedef struct {
    void *context;
    void *(*allocate)(void *context, size_t size);
    void *(*allocate_zeros)(void *context, size_t count, size_t size);
    void *(*resize)(void *context, void *block, size_t size);
    void (*free)(void *context, void *block);
} PyMemAllocatorEx;
enum { PYMEM_DOMAIN_RAW };
void PyMem_GetAllocator(int domain, PyMemAllocatorEx *allocator);
void PyMem_SetAllocator(int domain, PyMemAllocatorEx *allocator);

void *PyMem_RawMalloc(size_t size);
void PyMem_RawFree(void *memory);
void *PyObject_Malloc(size_t size);
void PyObject_Free(void *memory);
void Py_IncRef(PyObject *object);
void Py_DecRef(PyObject *object);
void Py_LeaveRecursiveCall(void);
void PyOS_BeforeFork(void);
void PyOS_AfterFork_Child(void);
void PyOS_AfterFork_Parent(void);
int Py_RunMain(void);
int Py_BytesMain(int argc, char **argv);
int Py_FinalizeEx(void);
int Py_AtExit(void (*function)(void));
PyStatus PyConfig_SetString(void *config, wchar_t **place, const wchar_t *text);
PyStatus PyConfig_SetWideStringList(void *config, PyWideStringList *list, Py_ssize_t length, wchar_t **items);
PyInterpreterState *PyInterpreterState_Get(void);
PyInterpreterState *PyInterpreterState_Head(void);
PyInterpreterState *PyInterpreterState_Next(PyInterpreterState *interpreter);
PyObject *PyInterpreterState_GetDict(PyInterpreterState *interpreter);
PyThreadState *PyInterpreterState_ThreadHead(PyInterpreterState *interpreter);
PyThreadState *PyThreadState_Next(PyThreadState *state);
PyThreadState *PyEval_SaveThread(void);
void PyEval_RestoreThread(PyThreadState *state);
int PyErr_CheckSignals(void);
extern PyObject _Py_NoneStruct, _Py_TrueStruct, _Py_FalseStruct;
extern PyObject *PyExc_RuntimeError;
extern PyObject *PyExc_OSError;

/* Exported, but private. The second exists since 3.12.1, where Py_RunMain marks that it runs. */
const void *_Py_GetConfig(void);
__attribute__((weak)) void _PyInterpreterState_SetNotRunningMain(PyInterpreterState *interpreter);

/* Of the C library. */
extern char **environ;
int fork(void);
unsigned long getauxval(unsigned long type);
struct loaded { /* the beginning of struct dl_phdr_info, dl_iterate_phdr(3) */
    unsigned long address;
    const char *name;
    const void *headers; /* ElfW(Phdr) */
    unsigned short header_count;
};
int dl_iterate_phdr(int (*callback)(struct loaded *loaded, unsigned long size, void *data), void *data);
void *__tls_get_addr(void *index);
void *mmap(void *address, size_t size, int prot, int flags, int fd, long offset);
/* Weak: before glibc 2.34 these are in a library of their own. */
__attribute__((weak)) void *dlopen(const char *name, int flags);
__attribute__((weak)) int dlclose(void *handle);
_Noreturn void exit(int status);
