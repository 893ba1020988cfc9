// Standard input, output and error of a program.
#pragma once

namespace terngrad {

/// Opens /dev/null for each closed standard stream. Otherwise the next opened file would get its descriptor, and
/// printed text would land in that file. Call it first in main.
void open_standard_streams();

}  // namespace terngrad
