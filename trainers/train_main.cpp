#include "trainers/command_main.h"
#include "trainers/train_command.h"

int main(int argc, char** argv) { return terngrad::program_main("terngrad_train", argc, argv, terngrad::run_train); }
