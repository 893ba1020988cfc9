// Compiles the header of the C API as C++98.
#include "capi/terngrad.h"

const char* (*const terngrad_cpp98_function)() = tg_version;
