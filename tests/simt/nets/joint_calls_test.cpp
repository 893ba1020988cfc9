// Nets on a GPU with libraries whose operations on several slices round differently or are not supported.
#include <gtest/gtest.h>

#include "nets/models/lenet.h"
#include "tests/nets/branched_net.h"
#include "tests/nets/cuda/net_on_device.h"
#include "tests/simt/nets/stand_in.h"

namespace terngrad::nets_joint_calls_test {
namespace {

using test::NetOnDevice;
using testing::JointCalls;

class JointSlices : public ::testing::Test {
 protected:
  void TearDown() override { testing::joint_calls = JointCalls::kSameBits; }
};

TEST_F(JointSlices, AreUsedOnlyWhereTheyChangeNoBit) {
  const ImageShape image{9, 8, 4};
  std::vector<NetOnDevice> alone;
  for (int first = 0; first < 3; ++first) {
    alone.emplace_back(test::branched_net(0.6f), image, 5, 1, 2, first).run(5);
  }
  struct Case {
    JointCalls joint_calls;
    const char* note;  // empty: none
  };
  for (const Case& c : {Case{JointCalls::kSameBits, ""}, Case{JointCalls::kOtherBits, "other bits"},
                        Case{JointCalls::kRefused, "no call for all"}}) {
    testing::joint_calls = c.joint_calls;
    NetOnDevice together(test::branched_net(0.6f), image, 5, 3, 2);
    together.run(5);
    for (int w = 0; w < 3; ++w) {
      EXPECT_EQ(test::tensor_bits(together.gradient(w), together.net->layout()),
                test::tensor_bits(alone[static_cast<std::size_t>(w)].gradient(0), together.net->layout()))
          << c.note << ", worker " << w;
    }
    const std::vector<std::string> notes = together.net->notes();
    EXPECT_EQ(notes.empty(), std::string(c.note).empty());
    for (const std::string& note : notes) EXPECT_NE(note.find(c.note), std::string::npos) << note;
  }
}

}  // namespace
}  // namespace terngrad::nets_joint_calls_test
