#include "trainers/commands/advise_command.h"
#include "trainers/launch/command_main.h"

int main(int argc, char** argv) { return terngrad::program_main("terngrad_advise", argc, argv, terngrad::run_advise); }
