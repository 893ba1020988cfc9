#include "trainers/loop/strategy.h"

#include <algorithm>
#include <utility>

#include "compress/exchange/bucketed_exchange.h"
#include "compress/exchange/nonfinite.h"
#include "compress/memory/worker_memory.h"
#include "kernels/runtime/errors.h"
#include "kernels/tensor/transform.h"

namespace terngrad {
namespace {

class Simple final : public Strategy {
 public:
  Simple(const Layout& layout, OnNonfinite on_nonfinite) : layout_(layout), on_nonfinite_(on_nonfinite) {}
  const std::string& name() const override {
    static const std::string name = "simple";
    return name;
  }
  StrategyResult combine(std::span<const TensorTable> gradients, std::span<float> mean, std::uint64_t step) override {
    TERNGRAD_REQUIRE(gradients.size() == 1, "[simple] takes one worker, got ", gradients.size());
    applied_ = TensorTable(layout_, mean.data());
    std::string first;
    int num_nonfinite = 0;
    Stream stream(Device::cpu(), 1);
    for (int index = 0; index < layout_.num_segments(); ++index) {
      const Segment& segment = layout_.segment(index);
      const std::span<const float> gradient(gradients[0].tensor(index), static_cast<std::size_t>(segment.num_elements));
      float* const out = mean.data() + segment.offset;
      if (all_finite(gradient, stream)) {
        std::ranges::copy(gradient, out);
        continue;
      }
      std::fill_n(out, gradient.size(), 0.0f);
      if (num_nonfinite++ == 0) first = segment.name;
    }
    StrategyResult result;
    if (num_nonfinite == 0) return result;
    result.report.nonfinite = "step " + std::to_string(step) + ": tensor '" + first + "' of worker 0" +
                              kNonfiniteWords +
                              (num_nonfinite > 1 ? " (and " + std::to_string(num_nonfinite - 1) + " more)" : "");
    if (on_nonfinite_ == OnNonfinite::kStop) throw NonFiniteError(result.report.nonfinite);
    result.skip = result.report.skipped = on_nonfinite_ == OnNonfinite::kSkip;
    return result;
  }
  float decode_sent(int, int segment, std::span<float> out) override {
    std::copy_n(applied_.tensor(segment), out.size(), out.data());
    return 0;
  }

 private:
  Layout layout_;
  OnNonfinite on_nonfinite_;
  TensorTable applied_;  // points into the caller's mean
};

class Replicated final : public Strategy {
 public:
  Replicated(const Layout& layout, std::unique_ptr<GradientExchange> exchange)
      : layout_(layout), exchange_(std::move(exchange)) {}
  const std::string& name() const override {
    static const std::string name = "replicated";
    return name;
  }
  StrategyResult combine(std::span<const TensorTable> gradients, std::span<float> mean, std::uint64_t step) override {
    StrategyResult result;
    result.report = exchange_->exchange(gradients, TensorTable(layout_, mean.data()), step);
    result.skip = result.report.skipped;
    return result;
  }
  BucketedExchange* in_buckets(std::uint64_t) override { return exchange_->in_buckets(); }
  float decode_sent(int worker, int segment, std::span<float> out) override {
    return exchange_->decode_local(worker, segment, out);
  }
  std::span<const float> encoded(int worker, int segment) override {
    if (memory() == nullptr || !memory()->covers(segment)) return {};
    return {memory()->encoded()[static_cast<std::size_t>(worker)].tensor(segment),
            static_cast<std::size_t>(layout_.segment(segment).num_elements)};
  }
  WorkerMemory* memory() override { return exchange_->memory(); }
  FactorState* factors() override { return exchange_->factors(); }

 private:
  Layout layout_;
  std::unique_ptr<GradientExchange> exchange_;
};

}  // namespace

std::unique_ptr<Strategy> make_simple_strategy(const Layout& layout, OnNonfinite on_nonfinite) {
  return std::make_unique<Simple>(layout, on_nonfinite);
}

std::unique_ptr<Strategy> make_replicated_strategy(const Layout& layout, std::unique_ptr<GradientExchange> exchange) {
  return std::make_unique<Replicated>(layout, std::move(exchange));
}

}  // namespace terngrad
