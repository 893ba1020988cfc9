#include "trainers/commands/eval_command.h"
#include "trainers/launch/command_main.h"

int main(int argc, char** argv) { return terngrad::program_main("terngrad_eval", argc, argv, terngrad::run_eval); }
