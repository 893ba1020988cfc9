#include "trainers/commands/train_command.h"
#include "trainers/launch/command_main.h"

int main(int argc, char** argv) { return terngrad::program_main("terngrad_train", argc, argv, terngrad::run_train); }
