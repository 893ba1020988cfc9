#include "trainers/commands/advised_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/runtime/errors.h"
#include "tests/trainers/temporary_directory.h"

namespace terngrad::advised_model_test {
namespace {

TEST(AdvisedModel, IsTheNetOfTheDataSetUnlessSaid) {
  const AdvisedModel mnist = make_advised_model({.dataset = "mnist"});
  EXPECT_EQ(mnist.name, "lenet");
  EXPECT_EQ(mnist.shape.height, 28);
  EXPECT_EQ(mnist.num_classes, 10);
  EXPECT_GT(mnist.batch_size, 0);
  const AdvisedModel cifar = make_advised_model({.dataset = "cifar10", .num_classes = 100});
  EXPECT_EQ(cifar.name, "cifar10_alexnet");
  EXPECT_EQ(cifar.num_classes, 100);
  EXPECT_EQ(cifar.shape.channels, 3);
}

TEST(AdvisedModel, HasTheImagesThatGoWithTheNet) {
  const AdvisedModel alexnet = make_advised_model({.dataset = "imagenet", .net = "alexnet"});
  EXPECT_EQ(alexnet.layout.num_elements(), 60'969'321);
  EXPECT_EQ(alexnet.shape.height, 224);
  EXPECT_EQ(make_advised_model({.dataset = "imagenet", .net = "inception_v3"}).shape.height, 299);
}

TEST(AdvisedModel, OfALayoutIsTheWellKnownModel) {
  const AdvisedModel model = make_advised_model({.layout = "alexnet"});
  EXPECT_EQ(model.name, "alexnet");
  EXPECT_EQ(model.batch_size, 0);
  EXPECT_GT(model.layout.num_elements(), 60'000'000);
}

TEST(AdvisedModel, WithoutSuchANetIsAUsageError) { EXPECT_THROW(make_advised_model({.net = "none"}), UsageError); }

}  // namespace
}  // namespace terngrad::advised_model_test
