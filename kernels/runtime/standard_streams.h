// Standard input, output and error of a program.
#pragma once

namespace terngrad {

/// Opens /dev/null in the place of each of the three that is closed. Otherwise the next file that the program opens
/// takes its number, and what is printed lands in that file. The first call of a main function.
void open_standard_streams();

}  // namespace terngrad
