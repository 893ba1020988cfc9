// NonfiniteTensors: the non-finite tensors of a step, and the policy of an exchange about them.
#pragma once

#include <cstdint>
#include <string>

#include "compress/exchange/gradient_exchange.h"
#include "compress/exchange/on_nonfinite.h"
#include "kernels/statistics/scaler_sharing.h"
#include "kernels/tensor/layout.h"

namespace terngrad {

/// Report for a tensor that counts as not finite, because its scalers are NaN.
inline constexpr const char* kNonfiniteWords = " holds NaN or infinity, or is too large for the codec";

/// Workers' tensors that hold NaN or infinity, and tensors whose mean overflowed. Adding the findings of an exchange's
/// parts, in any order, gives the findings of one exchange of all tensors.
class NonfiniteTensors {
 public:
  /// @param tensor  segment of the layout or of a selection from it
  void add_gradient(const Segment& tensor, int worker);
  /// Adds the tensors that combine_scalers reports for a layout.
  void add_gradients(const NonfiniteReport& report, const Layout& layout, int num_workers);
  void add_mean(const Segment& tensor);
  void add(const NonfiniteTensors& part);

  bool empty() const { return gradients_.count == 0 && means_.count == 0; }
  bool has_gradients() const { return gradients_.count > 0; }
  bool has_means() const { return means_.count > 0; }

  /// Applies `policy`: fills in `report.nonfinite`, which names the first tensor of the layout and its first worker,
  /// and `report.skipped`. Gradients that drop the step are reported in place of overflowing means.
  /// @throws NonFiniteError with kStop if there is any non-finite tensor
  void apply_policy(OnNonfinite policy, std::uint64_t step, ExchangeReport& report) const;

 private:
  struct Kind {
    int count = 0;
    std::int64_t place = 0;  // draw offset of the first tensor, the same in every selection; then its name and worker
    std::string tensor;
    int worker = 0;
  };
  static void add(const Kind& found, Kind& sum);

  Kind gradients_;
  Kind means_;
};

}  // namespace terngrad
