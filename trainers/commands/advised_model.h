// AdvisedModel: the tensors for terngrad_advise, of a net or a well-known model.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/tensor/layout.h"
#include "nets/net_plan.h"

namespace terngrad {

/// Options of terngrad_advise; empty or 0: the defaults of the data set.
struct AdvisedModelOptions {
  std::string layout = {};  // layout of a well-known model, instead of a net
  std::string dataset = "synthetic";
  std::string net = {};
  int image_size = 0;
  int channels = 0;
  int num_classes = 0;
  std::int64_t batch_size = 0;
};

/// A model that terngrad_advise measures exchanges for.
struct AdvisedModel {
  std::string name;
  Layout layout;
  // Set for nets only:
  NetSpec spec = {};
  ImageShape shape = {};
  int num_classes = 0;
  std::int64_t batch_size = 0;  // joint batch size
};

/// Creates the model. @throws UsageError if the images do not fit the net
AdvisedModel make_advised_model(const AdvisedModelOptions& o);

}  // namespace terngrad
