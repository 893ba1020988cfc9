#include <cstdio>

#include "bench/exchange_command.h"
#include "trainers/launch/command_main.h"

int main(int argc, char** argv) {
#ifndef NDEBUG
  std::fprintf(stderr, "terngrad_exchange_bench: error: this is a debug build; its figures would mean nothing\n");
  return terngrad::kExitUsage;
#else
  return terngrad::program_main("terngrad_exchange_bench", argc, argv, terngrad::bench::run_exchange_bench);
#endif
}
