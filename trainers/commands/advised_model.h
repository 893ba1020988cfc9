// What terngrad_advise gives advice on: the tensors of a net, or of a well-known model.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/tensor/layout.h"
#include "nets/net_plan.h"

namespace terngrad {

/// The options of the same names; empty and 0: what goes with the data set.
struct AdvisedModelOptions {
  std::string layout = {};  // of a well-known model, in place of a net
  std::string dataset = "synthetic";
  std::string net = {};
  int image_size = 0;
  int channels = 0;
  int num_classes = 0;
  std::int64_t batch_size = 0;
};

struct AdvisedModel {
  std::string name;
  Layout layout;
  // Of a net, of which more is known than the layout:
  NetSpec spec = {};
  ImageShape shape = {};
  int num_classes = 0;
  std::int64_t batch_size = 0;  // of its data set
};

/// @throws UsageError for a net that its images do not fit
AdvisedModel make_advised_model(const AdvisedModelOptions& o);

}  // namespace terngrad
