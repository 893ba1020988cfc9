#include "trainers/optim/adam.h"

#include <charconv>
#include <cmath>

#include "kernels/optimizer/optimizer.h"
#include "kernels/runtime/errors.h"
#include "kernels/tensor/filled.h"
#include "trainers/optim/integer_power.h"

namespace terngrad {
namespace {

constexpr AdamConstants kConstants{};
constexpr const char* kUpdatesKey = "adam_updates";

class Adam final : public Optimizer {
 public:
  Adam(std::int64_t flat_elements, const Device& device)
      : first_moment_(make_filled(flat_elements, 0, device)), second_moment_(make_filled(flat_elements, 0, device)) {}
  const std::string& name() const override {
    static const std::string name = "adam";
    return name;
  }
  void update(std::span<float> parameters, std::span<const float> gradient, float rate, Stream& stream,
              const StepScalars& scalars) override {
    update_adam(parameters, first_moment_.span(), second_moment_.span(), gradient, rate, kConstants, stream, scalars);
  }
  float rate(float learning_rate, std::uint64_t updates_ahead) const override {
    return adam_step_size(learning_rate, num_updates_ + updates_ahead + 1);
  }
  void count_updates(std::uint64_t count) override { num_updates_ += count; }
  std::vector<Slot> slots() override { return {{"m", first_moment_.span()}, {"v", second_moment_.span()}}; }
  std::map<std::string, std::string> state() const override { return {{kUpdatesKey, std::to_string(num_updates_)}}; }
  void restore_state(const std::map<std::string, std::string>& entries) override {
    const auto entry = entries.find(kUpdatesKey);
    if (entry == entries.end()) TERNGRAD_THROW(DataError, "[adam] the saved state has no ", kUpdatesKey);
    const std::string& text = entry->second;
    std::uint64_t count = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
    if (error != std::errc{} || end != text.data() + text.size()) {
      TERNGRAD_THROW(DataError, "[adam] the saved state has ", kUpdatesKey, " '", text, "', which is no count");
    }
    num_updates_ = count;
  }

 private:
  Buffer<float> first_moment_;
  Buffer<float> second_moment_;
  std::uint64_t num_updates_ = 0;
};

}  // namespace

float adam_step_size(float learning_rate, std::uint64_t update) {
  TERNGRAD_REQUIRE(update >= 1, "[adam] updates count from 1");
  // Powers of the kernel's float constants: then the corrections match the weights that the moments' sums have.
  const double rest1 = 1.0 - integer_power(double{kConstants.beta1}, update);
  const double rest2 = 1.0 - integer_power(double{kConstants.beta2}, update);
  return static_cast<float>(double{learning_rate} * std::sqrt(rest2) / rest1);
}

std::unique_ptr<Optimizer> make_adam(std::int64_t flat_elements, const Device& device) {
  return std::make_unique<Adam>(flat_elements, device);
}

}  // namespace terngrad
