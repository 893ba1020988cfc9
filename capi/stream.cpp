#include "capi/stream.h"

#include "capi/status.h"

using namespace terngrad;
using namespace terngrad::capi;

extern "C" {

tg_status tg_stream_cpu(int32_t num_threads, tg_stream** out) {
  return guard([&] {
    tg_stream*& made = deref(out, "out");
    require_range("num_threads", num_threads, 1, 4096);
    made = new tg_stream{Stream(Device::cpu(), num_threads)};
  });
}

void tg_stream_destroy(tg_stream* stream) { delete stream; }

}  // extern "C"
