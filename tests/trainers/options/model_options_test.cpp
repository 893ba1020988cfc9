#include "trainers/options/train_option_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/trainers/checked_options.h"
#include "tests/trainers/identity_entries.h"

namespace terngrad::model_options_test {
namespace {

using testing::accept;
using ::testing::AllOf;
using testing::expect_refused;
using ::testing::HasSubstr;
using testing::identity_entry;
using testing::refuse;
using testing::resume_refusal;

TEST(ModelOptions, OptionsWithoutEffectAreRefused) {
  expect_refused({
      {{"--optimizer", "gd", "--momentum", "0.5"}, {"--momentum", "--optimizer momentum or rmsprop"}},
      {{"--optimizer", "adam", "--momentum", "0.5"}, {"--momentum", "--optimizer momentum or rmsprop"}},
      {{"--num_epochs_per_decay", "2"}, {"--num_epochs_per_decay", "--learning_rate_decay_type exponential"}},
      {{"--learning_rate_decay_type", "fixed", "--learning_rate_decay_factor", "0.5"},
       {"--learning_rate_decay_factor", "--learning_rate_decay_type exponential"}},
      {{"--learning_rate_boundaries", "5"}, {"--learning_rate_boundaries", "--learning_rate_decay_type steps"}},
      {{"--learning_rate_decay_type", "steps", "--learning_rate_boundaries", "5", "--num_epochs_per_decay", "2"},
       {"--num_epochs_per_decay", "--learning_rate_decay_type exponential"}},
  });
}

TEST(ModelOptions, AugmentationCanBeTurnedOffWhereThereIsOne) {
  EXPECT_EQ(accept({"--dataset", "cifar10", "--data_dir", "d", "--augment", "off"}).augment, Augment::kOff);
  EXPECT_THAT(refuse({"--dataset", "mnist", "--data_dir", "d", "--augment", "off"}),
              HasSubstr("--augment off: needs a --dataset that is read and augmented; mnist is never augmented"));
}

TEST(ModelOptions, DropoutNeedsANetThatHasSome) {
  for (const char* net : {"lenet", "cifar10_alexnet"}) {
    EXPECT_THAT(refuse({"--net", net, "--dropout_keep_prob", "0.8"}),
                AllOf(HasSubstr("--dropout_keep_prob"), HasSubstr(net)));
  }
  EXPECT_THAT(refuse({"--dropout_keep_prob", "0"}), HasSubstr("above 0, at most 1"));
}

TEST(ModelOptions, TheIdentityHasWhatTheyComeTo) {
  EXPECT_EQ(identity_entry({}, "preprocessing"), "auto");
  EXPECT_EQ(identity_entry({"--dataset", "records", "--data_dir", "d"}, "preprocessing"), "standard");
  EXPECT_EQ(identity_entry({}, "learning_rate_boundaries"), "(none)");
  EXPECT_EQ(identity_entry({"--learning_rate_decay_type", "steps", "--learning_rate_boundaries", "10:30:10"},
                           "learning_rate_boundaries"),
            "10,20,30");
}

TEST(ModelOptions, AugmentationIsPartOfTheIdentity) {
  const std::vector<std::string> cifar = {"--dataset", "cifar10", "--data_dir", "d"};
  std::vector<std::string> plain = cifar;
  plain.insert(plain.end(), {"--augment", "off"});
  EXPECT_THAT(resume_refusal(cifar, plain), HasSubstr("this run has --augment 'on', there it is 'off'"));
}

TEST(ModelOptions, ARunMayBeMadeLonger) { EXPECT_EQ(resume_refusal({"--max_steps", "30"}, {"--max_steps", "20"}), ""); }

}  // namespace
}  // namespace terngrad::model_options_test
