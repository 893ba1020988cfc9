#include "nets/cuda/cuda_net.h"

#include <algorithm>
#include <utility>

#include "kernels/runtime/copy.h"
#include "kernels/runtime/errors.h"
#include "nets/cuda/pass_runner.h"
#include "nets/planned_net.h"

namespace terngrad::cuda {
namespace {

/// Examples per pass of predict. Fixed, so that logits depend on parameters and images only.
constexpr int kPredictExamples = 256;

/// Buffers from pointers at equal distances. @throws InvalidArgument if the distances differ
WorkerBuffers<float> equally_spaced(std::span<float* const> pointers, const char* what) {
  if (pointers.empty()) return {};
  const WorkerBuffers<float> buffers{pointers[0], pointers.size() > 1 ? pointers[1] - pointers[0] : 0};
  for (std::size_t i = 1; i < pointers.size(); ++i) {
    TERNGRAD_REQUIRE(buffers.stride > 0 && pointers[i] == buffers.of(static_cast<int>(i)), "[DeviceNet] the ", what,
                     " of the workers must lie at equal distances in one allocation, in order");
  }
  return buffers;
}

class CudaNet final : public PlannedNet<DeviceNet> {
 public:
  CudaNet(NetPlan plan, const NetOptions& options, MathMode math, const Stream& stream)
      : PlannedNet(std::move(plan)),
        options_(options),
        math_(math),
        stream_(stream),
        libraries_(stream),
        trainer_(libraries_, this->plan(), options.num_local_workers, options.examples_per_worker, Mode::kTraining,
                 math, notes_) {}

  Stream& stream() override { return stream_; }
  Device device() const override { return stream_.device(); }
  std::vector<std::string> notes() const override { return notes_; }

  void submit_gradients(const float* parameters, const DeviceBatch& batch, WorkerBuffers<float> gradients,
                        WorkerLoss* losses, const SegmentSubmitted& on_segment) override {
    trainer_.compute_gradients({.parameters = parameters,
                                .seed = options_.seed,
                                .step = batch.step,
                                .first_worker = static_cast<std::uint32_t>(options_.first_local_worker),
                                .states = batch.states},
                               batch.images, batch.labels, gradients, losses, on_segment);
  }

  void submit_predict(const float* parameters, const float* state, const float* images, int num_examples,
                      float* logits) override {
    make_predictor();
    const std::int64_t image_elements = image_shape().num_elements();
    for (int first = 0; first < num_examples; first += kPredictExamples) {
      const int count = std::min(kPredictExamples, num_examples - first);
      const float* source = images + first * image_elements;
      if (count < kPredictExamples) {
        const auto elements = static_cast<std::size_t>(count * image_elements);
        copy<float>(std::span(source, elements), padded_images_.span().first(elements), stream_);
        source = padded_images_.data();
      }
      const float* result = predictor_->forward({.parameters = parameters, .state = state}, source);
      const std::size_t wanted = static_cast<std::size_t>(count) * static_cast<std::size_t>(num_classes());
      copy<float>(std::span(result, wanted), std::span(logits + std::int64_t{first} * num_classes(), wanted), stream_);
    }
  }

  void compute_gradients(std::span<const float> parameters, const TrainBatch& batch, std::span<float* const> gradients,
                         std::span<WorkerLoss> losses, const SegmentReady& on_segment_ready) override {
    check_gradients(plan(), options_, parameters, batch, gradients, losses);
    refuse_logits(batch);
    const DeviceBatch on_device{.images = batch.images.data(),
                                .labels = batch.labels.data(),
                                .step = {.step = batch.step},
                                .states = equally_spaced(batch.states, "states")};
    if (losses_.num_elements() == 0) losses_ = Buffer<WorkerLoss>(options_.num_local_workers, stream_.device());
    submit_gradients(parameters.data(), on_device, equally_spaced(gradients, "gradients"), losses_.data(), {});
    copy<WorkerLoss>(losses_.span(), losses, stream_);
    stream_.synchronize();
    if (!on_segment_ready) return;
    for (const int segment : gradient_order()) {
      for (int worker = 0; worker < options_.num_local_workers; ++worker) on_segment_ready(worker, segment);
    }
  }

  void predict(std::span<const float> parameters, std::span<const float> state, std::span<const float> images,
               int num_examples, std::span<float> logits) override {
    check_predict(plan(), parameters, state, images, num_examples, logits);
    submit_predict(parameters.data(), state.data(), images.data(), num_examples, logits.data());
    stream_.synchronize();
  }

 private:
  void make_predictor() {
    if (predictor_ != nullptr) return;
    std::vector<std::string> none;  // with one worker there are no notes
    predictor_ = std::make_unique<PassRunner>(libraries_, plan(), 1, kPredictExamples, Mode::kInference, math_, none);
    padded_images_ = Buffer<float>(kPredictExamples * image_shape().num_elements(), stream_.device());
    fill_zero(padded_images_.span(), stream_);
  }

  NetOptions options_;
  MathMode math_;
  Stream stream_;
  Libraries libraries_;
  std::vector<std::string> notes_;
  PassRunner trainer_;
  std::unique_ptr<PassRunner> predictor_;  // created by the first predict
  Buffer<float> padded_images_;            // the last chunk, padded
  Buffer<WorkerLoss> losses_;
};

}  // namespace

std::string nets_unavailable_reason() { return ""; }

std::string net_libraries_unavailable_reason() { return Libraries::why_missing(); }

std::string net_libraries() { return Libraries::versions(); }

std::string net_libraries_of_build() { return Libraries::versions_of_build(); }

std::unique_ptr<DeviceNet> make_net(NetPlan plan, const NetOptions& options, MathMode math, const Stream& stream) {
  check_workers(options);
  return std::make_unique<CudaNet>(std::move(plan), options, math, stream);
}

}  // namespace terngrad::cuda
