// The version of this build. Defined in its own library, terngrad::version (terngrad::trainers brings it along),
// so that another commit compiles one source and nothing else.
#pragma once

namespace terngrad {

/// "0.1.0".
const char* version();
/// The commit that the program was linked from, as `git describe --always --dirty --abbrev=12` names it, of at most 63
/// characters; "unknown" where the sources are no work tree of git.
const char* commit();

}  // namespace terngrad
