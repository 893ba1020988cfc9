#include "trainers/options/train_conditions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/trainers/checked_options.h"
#include "tests/trainers/temporary_directory.h"

namespace terngrad::train_conditions_test {
namespace {

using testing::expect_accepted;
using testing::expect_refused;
using testing::TemporaryDirectory;

TEST(TrainConditions, MessagesAreDumpedWhereThereAreSome) {
  const TemporaryDirectory folder;
  const std::string dump = (folder / "dump").string();
  expect_refused({
      {{"--dump_steps", "2"}, {"--dump_steps", "--dump_messages"}},
      {{"--dump_messages", dump}, {"--dump_messages " + dump, "--num_nodes 2"}},
      {{"--dump_messages", dump, "--num_nodes", "2", "--strategy", "async"}, {"--dump_messages", "replicated or ps"}},
      {{"--dump_messages", dump, "--num_nodes", "2", "--exchange", "vendor"}, {"--dump_messages", "other than vendor"}},
      {{"--dump_messages", dump, "--num_nodes", "2", "--grad_bits", "1", "--exchange", "integer_sum"},
       {"--dump_messages", "all_gather or scatter_reduce"}},
      {{"--dump_messages", "/dev/null", "--num_nodes", "2"}, {"--dump_messages /dev/null", "is not a folder"}},
  });
  expect_accepted({
      {"--dump_messages", dump, "--num_nodes", "2", "--dump_steps", "3"},
      {"--dump_messages", dump, "--strategy", "replicated"},
      {"--dump_messages", dump, "--num_nodes", "2", "--strategy", "ps"},
  });
}

}  // namespace
}  // namespace terngrad::train_conditions_test
