/* The hash of the sources that the library was built from, which the binding compares with the files beside it. */
#include "native.h"

EXPORT const char *built_from(void) { return UCM_SOURCES; }
