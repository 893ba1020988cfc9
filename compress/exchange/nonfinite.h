// NonfiniteTensors: what was found in a step that is not finite, and what an exchange does about it.
#pragma once

#include <cstdint>
#include <string>

#include "compress/exchange/gradient_exchange.h"
#include "compress/exchange/on_nonfinite.h"
#include "kernels/statistics/scaler_sharing.h"
#include "kernels/tensor/layout.h"

namespace terngrad {

/// How a tensor that counts as not finite is reported: its scalers are NaN.
inline constexpr const char* kNonfiniteWords = " holds NaN or infinity, or is too large for the codec";

/// Workers' tensors that hold NaN or infinity, and tensors whose mean overflowed. What the parts of an exchange find
/// adds up to what one exchange of everything would find, in whatever order the parts are added.
class NonfiniteTensors {
 public:
  /// @param tensor  of the layout or of a selection from it
  void add_gradient(const Segment& tensor, int worker);
  /// What combine_scalers reports of the tensors of a layout.
  void add_gradients(const NonfiniteReport& report, const Layout& layout, int num_workers);
  void add_mean(const Segment& tensor);
  void add(const NonfiniteTensors& part);

  bool empty() const { return gradients_.count == 0 && means_.count == 0; }
  bool has_gradients() const { return gradients_.count > 0; }
  bool has_means() const { return means_.count > 0; }

  /// Does what `policy` says, in words that name the first tensor of the layout, and of its workers the first: fills
  /// in `report.nonfinite` and `report.skipped`. Overflowing means are not told of beside gradients that drop the step.
  /// @throws NonFiniteError with kStop if there are any
  void apply_policy(OnNonfinite policy, std::uint64_t step, ExchangeReport& report) const;

 private:
  struct Kind {
    int count = 0;
    std::int64_t place = 0;  // of the first: its draw offset, the same in every selection; and its name and worker
    std::string tensor;
    int worker = 0;
  };
  static void add(const Kind& found, Kind& sum);

  Kind gradients_;
  Kind means_;
};

}  // namespace terngrad
