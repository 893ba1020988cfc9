// Version of this build. Defined in its own library, terngrad::version (part of terngrad::trainers), so that a new
// commit recompiles only one source file.
#pragma once

namespace terngrad {

/// The version number, e.g. "0.1.0".
const char* version();
/// The commit of the build, from `git describe --always --dirty --abbrev=12`, at most 63 characters; "unknown" if the
/// sources are not in a git work tree.
const char* commit();

}  // namespace terngrad
