#include "trainers/loop/floating_epochs.h"

#include <utility>

#include "kernels/runtime/errors.h"

namespace terngrad {
namespace {

class FloatingEpochs final : public Strategy {
 public:
  FloatingEpochs(std::unique_ptr<Strategy> compressed, std::unique_ptr<Strategy> floating,
                 std::function<bool(std::uint64_t)> is_floating)
      : compressed_(std::move(compressed)),
        floating_(std::move(floating)),
        is_floating_(std::move(is_floating)),
        last_(compressed_.get()) {}
  const std::string& name() const override { return compressed_->name(); }
  StrategyResult combine(std::span<const TensorTable> gradients, std::span<float> mean, std::uint64_t step) override {
    choose(step);
    return last_->combine(gradients, mean, step);
  }
  BucketedExchange* in_buckets(std::uint64_t step) override {
    choose(step);
    return last_->in_buckets(step);
  }
  float decode_sent(int worker, int segment, std::span<float> out) override {
    return last_->decode_sent(worker, segment, out);
  }
  std::span<const float> encoded(int worker, int segment) override { return last_->encoded(worker, segment); }
  WorkerMemory* memory() override { return compressed_->memory(); }
  FactorState* factors() override { return compressed_->factors(); }

 private:
  void choose(std::uint64_t step) { last_ = is_floating_(step) ? floating_.get() : compressed_.get(); }

  std::unique_ptr<Strategy> compressed_;
  std::unique_ptr<Strategy> floating_;
  std::function<bool(std::uint64_t)> is_floating_;
  Strategy* last_;
};

}  // namespace

bool is_floating_step(std::uint64_t step, std::int64_t batch_size, std::int64_t num_examples, std::int64_t period) {
  TERNGRAD_REQUIRE(batch_size >= 1 && num_examples >= 1 && period >= 1,
                   "[floating epochs] batch size, number of examples and period must be at least 1, got ", batch_size,
                   ", ", num_examples, " and ", period);
  // 40 bits of step times 31 bits of batch do not fit 64 bits.
  using Wide = unsigned __int128;
  const Wide epoch = static_cast<Wide>(step) * static_cast<Wide>(batch_size) / static_cast<Wide>(num_examples);
  return epoch % static_cast<Wide>(period) == static_cast<Wide>(period - 1);
}

std::unique_ptr<Strategy> make_floating_epochs_strategy(std::unique_ptr<Strategy> compressed,
                                                        std::unique_ptr<Strategy> floating,
                                                        std::function<bool(std::uint64_t step)> is_floating) {
  return std::make_unique<FloatingEpochs>(std::move(compressed), std::move(floating), std::move(is_floating));
}

}  // namespace terngrad
