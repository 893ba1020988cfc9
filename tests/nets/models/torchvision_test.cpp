#include "nets/models/torchvision.h"

#include "nets/models/googlenet.h"
#include "nets/models/inception_v3.h"
#include "tests/nets/models/model_checks.h"

namespace terngrad::torchvision_test {
namespace {

std::int64_t num_parameters(const NetSpec& spec, int side) {
  return plan_net(spec, {side, side, 3}, 1000).layout.num_elements();
}

// Sums over model.parameters() of torchvision 0.14; tests/python/checkpoint_test.py compares logits.
TEST(Torchvision, NetsHaveAsManyParametersAsTheirs) {
  EXPECT_EQ(num_parameters(torchvision_alexnet(0.5f), 224), 61'100'840);
  EXPECT_EQ(num_parameters(torchvision_vgg_16(0.5f), 224), 138'357'544);
  EXPECT_EQ(num_parameters(torchvision_googlenet(0.8f), 224), 6'624'904);  // aux_logits=False
  EXPECT_EQ(num_parameters(torchvision_inception_v3(0.5f), 299), 27'161'264);
}

TEST(Torchvision, AlexnetIsPaddedByTwo) {
  const NetPlan net = plan_net(torchvision_alexnet(0.5f), {224, 224, 3}, 1000);
  const LayerPlan& first = test::layer_of(net, "conv1");
  EXPECT_EQ(first.output, (ImageShape{55, 55, 64}));
  EXPECT_EQ(first.padding.top, 2);
  EXPECT_EQ(first.padding.bottom, 1);  // the last window ends there
  EXPECT_EQ(test::layer_of(net, "pool5").output, (ImageShape{6, 6, 256}));
  EXPECT_NO_THROW(plan_net(torchvision_alexnet(0.5f), {63, 63, 3}, 10));
  EXPECT_THROW(plan_net(torchvision_alexnet(0.5f), {62, 63, 3}, 10), InvalidArgument);
}

}  // namespace
}  // namespace terngrad::torchvision_test
