#include "trainers/commands/records_command.h"
#include "trainers/launch/command_main.h"

int main(int argc, char** argv) {
  return terngrad::program_main("terngrad_records", argc, argv, terngrad::run_records);
}
