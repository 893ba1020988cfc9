#include "bench/nets/train_step_parts.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "bench/nets/train_step_subject.h"
#include "compress/codec/coder.h"
#include "compress/exchange/compressed_all_reduce.h"
#include "compress/transport/device_payloads.h"
#include "datasets/device_examples.h"
#include "kernels/optimizer/optimizer.h"
#include "kernels/runtime/copy.h"
#include "nets/device_net.h"
#include "trainers/optim/flat_range.h"
#include "trainers/optim/gradient_transform.h"
#include "trainers/optim/optimizer.h"
#include "trainers/optim/worker_gradients.h"

namespace terngrad::bench {

TrainStepParts::TrainStepParts(const TrainStepSubject& subject, const Stream& stream)
    : stream_(stream),
      workers_(workers_of(subject)),
      net_(make_net_of(subject, *make_dataset_of(subject), stream)),
      examples_(make_examples_of(subject, make_dataset_of(subject), 1, stream)),
      exchange_options_(exchange_options_of(subject)),
      plan_(net_->layout(), exchange_options_.codecs),
      optimizer_(make_optimizer(recipe_of(subject).optimizer, {}, net_->layout().flat_elements(), stream.device())),
      transform_(make_weight_decay(*net_, recipe_of(subject).weight_decay, stream.device())),
      parameters_(net_->layout().flat_elements(), stream.device()),
      average_(net_->layout().flat_elements(), stream.device()),
      mean_(net_->layout().flat_elements(), stream.device()),
      gradients_(net_->layout().flat_elements() * subject.num_workers, stream.device()),
      losses_(subject.num_workers, stream.device()),
      counts_(1, stream.device()),
      report_(1, stream.device()),
      skip_(1, stream.device()),
      mean_table_(net_->layout(), mean_.data()) {
  const Layout& layout = net_->layout();
  const CoderSetup setup{.layout = layout,
                         .workers = workers_,
                         .seed = exchange_options_.seed,
                         .drops_nonfinite_steps = true,
                         .device = stream.device()};
  payloads_ = make_gathered_payloads(
      {.layout = layout, .plan = plan_, .ranks = {workers_}, .rank = 0, .device = stream.device()});
  for (std::size_t g = 0; g < plan_.groups().size(); ++g) {
    const CodecPlan::Group& group = plan_.groups()[g];
    coders_.push_back(group.codec->make_coder(setup, group.segments, payloads_->slots(g)));
  }
  gradient_tables_ = tables_of(layout, {{gradients_.data(), layout.flat_elements()}, workers_.num_workers});
  std::vector<float> initial(static_cast<std::size_t>(layout.flat_elements()));
  net_->initialize(1, initial);
  copy<float>(initial, parameters_.span(), stream_);
  copy<float>(initial, average_.span(), stream_);
  for (Buffer<float>* buffer : {&mean_, &gradients_}) fill_zero(buffer->span(), stream_);
  fill_zero(counts_.span(), stream_);
  fill_zero(report_.span(), stream_);
  fill_zero(skip_.span(), stream_);
  examples_->prepare(0, 1);
  stream_.synchronize();
}

TrainStepParts::~TrainStepParts() = default;

void TrainStepParts::submit_examples() { examples_->submit({}); }

void TrainStepParts::submit_compute() {
  net_->submit_gradients(parameters_.data(), {.images = examples_->images(), .labels = examples_->labels()},
                         {gradients_.data(), net_->layout().flat_elements()}, losses_.data());
}

void TrainStepParts::submit_transform() {
  transform_->submit(parameters_.data(), {{gradients_.data(), net_->layout().flat_elements()}, workers_.num_workers},
                     whole_range(net_->layout()), counts_.data(), stream_);
}

void TrainStepParts::submit_encode() {
  for (const auto& coder : coders_) coder->measure(gradient_tables_, {}, stream_);
  for (const auto& coder : coders_)
    coder->combine_scalers(report_.data(), skip_.data(), /*stop_latched=*/nullptr, stream_);
  for (const auto& coder : coders_) coder->encode(gradient_tables_, {}, stream_);
}

void TrainStepParts::submit_decode() {
  for (const auto& coder : coders_) {
    coder->aggregate(mean_table_, AggregateUnit::kMean, stream_);
    coder->finish(mean_table_, whole_segments(net_->layout()), {}, stream_);
  }
}

void TrainStepParts::submit_update() {
  // A rate of 0 takes as long as any other.
  optimizer_->update(parameters_.span(), mean_.span(), {}, stream_, {.skip = skip_.data()});
  update_ema(average_.span(), parameters_.span(), 0.9999f, stream_, {.skip = skip_.data()});
}

bool TrainStepParts::mean_is_right() {
  CompressedAllReduce exchange(net_->layout(), {workers_, make_self_device_communicator()}, exchange_options_, stream_);
  Buffer<float> expected(mean_.num_elements(), stream_.device());
  fill_zero(expected.span(), stream_);
  exchange.exchange(gradient_tables_, TensorTable(net_->layout(), expected.data()), 0);
  std::vector<float> theirs(static_cast<std::size_t>(mean_.num_elements()));
  std::vector<float> ours(theirs.size());
  copy<float>(expected.span(), std::span(theirs), stream_);
  copy<float>(mean_.span(), std::span(ours), stream_);
  stream_.synchronize();
  const bool any = std::ranges::any_of(ours, [](float value) { return value != 0; });
  return any && std::memcmp(ours.data(), theirs.data(), ours.size() * sizeof(float)) == 0;
}

}  // namespace terngrad::bench
