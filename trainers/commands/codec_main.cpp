#include "trainers/commands/codec_command.h"
#include "trainers/launch/command_main.h"

int main(int argc, char** argv) { return terngrad::program_main("terngrad_codec", argc, argv, terngrad::run_codec); }
