#include "trainers/strategy.h"

#include <algorithm>

#include "kernels/errors.h"

namespace terngrad {
namespace {

class Simple final : public Strategy {
 public:
  explicit Simple(const Layout& layout) : layout_(layout) {}
  const std::string& name() const override {
    static const std::string name = "simple";
    return name;
  }
  StrategyResult combine(std::span<const TensorTable> gradients, std::span<float> mean, std::uint64_t) override {
    TERNGRAD_REQUIRE(gradients.size() == 1, "[simple] takes one worker, got ", gradients.size());
    gradient_ = gradients[0];
    for (int index = 0; index < layout_.num_segments(); ++index) {
      const Segment& segment = layout_.segment(index);
      std::copy_n(gradients[0].tensor(index), segment.num_elements, mean.data() + segment.offset);
    }
    return {};
  }
  float decode_sent(int, int segment, std::span<float> out) override {
    std::copy_n(gradient_.tensor(segment), out.size(), out.data());
    return 0;
  }

 private:
  Layout layout_;
  TensorTable gradient_;
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
  float decode_sent(int worker, int segment, std::span<float> out) override {
    return exchange_->decode_local(worker, segment, out);
  }

 private:
  Layout layout_;
  std::unique_ptr<GradientExchange> exchange_;
};

}  // namespace

std::unique_ptr<Strategy> make_simple_strategy(const Layout& layout) { return std::make_unique<Simple>(layout); }

std::unique_ptr<Strategy> make_replicated_strategy(const Layout& layout, std::unique_ptr<GradientExchange> exchange) {
  return std::make_unique<Replicated>(layout, std::move(exchange));
}

}  // namespace terngrad
