#include "trainers/optim/rmsprop.h"

#include "kernels/optimizer/optimizer.h"
#include "kernels/tensor/filled.h"

namespace terngrad {
namespace {

class Rmsprop final : public Optimizer {
 public:
  Rmsprop(double momentum, std::int64_t flat_elements, const Device& device)
      : constants_{.momentum = static_cast<float>(momentum)},
        mean_square_(make_filled(flat_elements, 1, device)),
        update_(make_filled(flat_elements, 0, device)) {}
  const std::string& name() const override {
    static const std::string name = "rmsprop";
    return name;
  }
  void update_part(std::span<float> parameters, std::span<const float> gradient, std::int64_t first,
                   const UpdateRates& rates, Stream& stream, const StepScalars& scalars) override {
    update_rmsprop(parameters, part_of(mean_square_, first, parameters), part_of(update_, first, parameters), gradient,
                   rates[0], constants_, stream, scalars);
  }
  std::vector<Slot> slots() override { return {{"ms", mean_square_.span()}, {"mom", update_.span()}}; }

 private:
  RmspropConstants constants_;
  Buffer<float> mean_square_;
  Buffer<float> update_;
};

}  // namespace

std::unique_ptr<Optimizer> make_rmsprop(double momentum, std::int64_t flat_elements, const Device& device) {
  return std::make_unique<Rmsprop>(momentum, flat_elements, device);
}

}  // namespace terngrad
