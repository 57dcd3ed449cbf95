/* Find the standard descriptors for which Python's streams, made in the builder, are wrong here. */
#include "warm/agent/streams.h"

#include <asm/stat.h>
#include <asm/unistd.h>

#include "warm/agent/system.h"

/* The properties of a descriptor that a stream depends on, unless it is a terminal or has a position. */
struct kind {
    unsigned type; /* of the file; 0: the descriptor is closed */
    unsigned long device;
    long block; /* bytes */
};

/* The descriptors that the standard streams were made for. */
static struct kind streams[3];

static struct kind kind_of(int fd)
{
    struct stat st = {0};
    if (system_call(__NR_fstat, fd, (long)&st, 0, 0) < 0)
        return (struct kind){0};
    return (struct kind){st.st_mode & 0170000, st.st_rdev, st.st_blksize};
}

PyObject *note_streams(PyObject *self, PyObject *args)
{
    (void)self;
    (void)args;
    for (int fd = 0; fd < 3; fd++)
        streams[fd] = kind_of(fd);
    Py_IncRef(&_Py_NoneStruct);
    return &_Py_NoneStruct;
}

PyObject *other_streams(void)
{
    PyObject *list = PyList_New(0);
    for (int fd = 0; list != NULL && fd < 3; fd++) {
        struct kind now = kind_of(fd), *noted = &streams[fd];
        if (now.type != 0 && now.type == noted->type && now.device == noted->device &&
            now.block == noted->block)
            continue;
        PyObject *number = Py_BuildValue("i", fd);
        if (number == NULL || PyList_Append(list, number) < 0)
            return NULL;
        Py_DecRef(number);
    }
    return list;
}
