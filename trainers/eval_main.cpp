#include "trainers/command_main.h"
#include "trainers/eval_command.h"

int main(int argc, char** argv) { return terngrad::program_main("terngrad_eval", argc, argv, terngrad::run_eval); }
