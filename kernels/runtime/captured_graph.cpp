#include "kernels/runtime/captured_graph.h"

#include "kernels/runtime/cuda/runtime.h"
#include "kernels/runtime/errors.h"

namespace terngrad {

CapturedGraph::CapturedGraph(Stream& stream, const std::function<void()>& submit) {
  if (!stream.device().is_cuda()) TERNGRAD_THROW(NotSupported, "[CapturedGraph] the CPU has no graphs");
  cuda::begin_capture(stream);
  try {
    submit();
  } catch (...) {
    cuda::abandon_capture(stream);
    throw;
  }
  executable_ = cuda::end_capture(stream);
}

bool is_capturing(const Stream& stream) { return stream.device().is_cuda() && cuda::is_capturing(stream); }

void CapturedGraph::launch(Stream& stream) const { cuda::launch_graph(executable_.get(), stream); }

}  // namespace terngrad
