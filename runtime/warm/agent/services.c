/* Services for the Python code of the agent, which cannot do this itself, or not in every version. */
#include "warm/agent/services.h"

#include <asm/unistd.h>
#include <linux/auxvec.h>
#include <linux/fcntl.h>
#include <linux/memfd.h>

#include "warm/agent/packages.h"
#include "warm/agent/system.h"

/* probe*.py and values.py, see embed.S. */
extern const char probe_source[];

PyObject *memory_file(PyObject *self, PyObject *args)
{
    (void)self;
    (void)args;
    long fd = system_call(__NR_memfd_create, (long)"output", MFD_CLOEXEC, 0, 0);
    /* A container whose memory no cgroup counts may be refused memfd_create(2). */
    if (fd < 0)
        fd = system_call(__NR_openat, AT_FDCWD, (long)"/dev/shm", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    return Py_BuildValue("i", (int)fd);
}

/* The arguments of the process. The dynamic linker passes them to the constructors of every library. */
static struct {
    int argc;
    char **argv;
} first;

__attribute__((constructor)) static void remember_start(int argc, char **argv)
{
    first.argc = argc;
    first.argv = argv;
}

PyObject *first_environment(PyObject *self, PyObject *args)
{
    (void)self;
    (void)args;
    const char *start = first.argc > 0 ? first.argv[first.argc - 1] : NULL;
    const char *end = (const char *)getauxval(AT_EXECFN);
    if (start != NULL)
        start += text_length(start) + 1;
    if (start == NULL || end == NULL || start > end)
        return PyErr_SetString(PyExc_RuntimeError, "the environment of the process cannot be found"), NULL;
    return PyBytes_FromStringAndSize(start, end - start);
}

PyObject *environment(PyObject *self, PyObject *args)
{
    (void)self;
    (void)args;
    ptrdiff_t size = 0;
    for (char **variable = environ; variable != NULL && *variable != NULL; variable++)
        size += text_length(*variable) + 1;
    char *all = PyMem_RawMalloc((size_t)size + 1), *to = all;
    if (all == NULL)
        return PyErr_SetString(PyExc_RuntimeError, "no memory for the environment"), NULL;
    for (char **variable = environ; variable != NULL && *variable != NULL; variable++)
        for (const char *from = *variable; (*to++ = *from) != '\0'; from++)
            ;
    PyObject *text = PyBytes_FromStringAndSize(all, to - all);
    PyMem_RawFree(all);
    return text;
}

PyObject *thaw(PyObject *self, PyObject *object)
{
    (void)self;
    if (PyObject_GC_IsTracked(object)) {
        PyObject_GC_UnTrack(object);
        PyObject_GC_Track(object);
    }
    Py_IncRef(&_Py_NoneStruct);
    return &_Py_NoneStruct;
}

/* A dictionary, from CPython 3.9 to 3.15. The second field is a version or the bits of watchers. */
struct dictionary {
    Py_ssize_t refcount;
    void *type;
    Py_ssize_t used;
    uint64_t version;
    void *keys, *values;
};

PyObject *swap(PyObject *self, PyObject *args)
{
    (void)self;
    struct dictionary *one, *other;
    if (!PyArg_ParseTuple(args, "OO", &one, &other))
        return NULL;
    struct dictionary copy = *one;
    one->used = other->used;
    one->keys = other->keys;
    one->values = other->values;
    other->used = copy.used;
    other->keys = copy.keys;
    other->values = copy.values;
    Py_IncRef(&_Py_NoneStruct);
    return &_Py_NoneStruct;
}

PyObject *keep(PyObject *self, PyObject *object)
{
    (void)self;
    Py_IncRef(object);
    Py_IncRef(&_Py_NoneStruct);
    return &_Py_NoneStruct;
}

/* The generator that words_of() was called for. */
static struct numpy_twister *twister;

PyObject *words_of(PyObject *self, PyObject *capsule)
{
    (void)self;
    struct numpy_twister *const *generator = PyCapsule_GetPointer(capsule, "BitGenerator");
    if (generator == NULL)
        return NULL;
    twister = *generator;
    return PyBytes_FromStringAndSize((const char *)twister, sizeof(*twister));
}

PyObject *fill_words(PyObject *self, PyObject *args)
{
    (void)self;
    (void)args;
    twister->position = TWISTER_WORDS;
    const long size = sizeof(twister->words);
    return Py_BuildValue("i", system_call(__NR_getrandom, (long)twister->words, size, 0, 0) == size);
}
