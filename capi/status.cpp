#include "capi/status.h"

#include <exception>
#include <new>
#include <stdexcept>

#include "kernels/runtime/version.h"

namespace terngrad::capi {
namespace {

/// Last error of the calling thread.
struct LastError {
  std::string text;
  const char* shown = "";
};
thread_local LastError last_error;

tg_status record_error(tg_status status, const char* text) noexcept {
  try {
    last_error.text = text;
    last_error.shown = last_error.text.c_str();
  } catch (...) {
    last_error.shown = "out of memory";
  }
  return status;
}

}  // namespace

tg_status keep_error() noexcept {
  try {
    throw;
  } catch (const CallbackFailed& error) {
    return record_error(TG_CALLBACK, error.what());
  } catch (const InvalidArgument& error) {
    return record_error(TG_INVALID_ARGUMENT, error.what());
  } catch (const UsageError& error) {
    return record_error(TG_INVALID_ARGUMENT, error.what());
  } catch (const DataError& error) {
    return record_error(TG_DATA, error.what());
  } catch (const CommunicationError& error) {
    return record_error(TG_COMMUNICATION, error.what());
  } catch (const NonFiniteError& error) {
    return record_error(TG_NONFINITE, error.what());
  } catch (const NotSupported& error) {
    return record_error(TG_NOT_SUPPORTED, error.what());
  } catch (const DeviceError& error) {
    return record_error(TG_DEVICE, error.what());
  } catch (const std::bad_alloc&) {
    return record_error(TG_OUT_OF_MEMORY, "out of memory");
  } catch (const std::length_error&) {
    return record_error(TG_OUT_OF_MEMORY, "out of memory: more than a list can hold");
  } catch (const std::exception& error) {
    return record_error(TG_INTERNAL, error.what());
  } catch (...) {
    return record_error(TG_INTERNAL, "an exception of unknown type");
  }
}

}  // namespace terngrad::capi

extern "C" {

std::uint32_t tg_abi_version(void) { return TG_ABI_VERSION; }

const char* tg_version(void) {
  static const std::string text =
      std::string(terngrad::version()) + " " + terngrad::commit() + " threads=" TERNGRAD_THREADS_NAME;
  return text.c_str();
}

const char* tg_last_error(void) { return terngrad::capi::last_error.shown; }

const char* tg_status_name(tg_status status) {
  switch (status) {
    case TG_OK:
      return "TG_OK";
    case TG_INVALID_ARGUMENT:
      return "TG_INVALID_ARGUMENT";
    case TG_NOT_SUPPORTED:
      return "TG_NOT_SUPPORTED";
    case TG_DATA:
      return "TG_DATA";
    case TG_COMMUNICATION:
      return "TG_COMMUNICATION";
    case TG_NONFINITE:
      return "TG_NONFINITE";
    case TG_DEVICE:
      return "TG_DEVICE";
    case TG_OUT_OF_MEMORY:
      return "TG_OUT_OF_MEMORY";
    case TG_CALLBACK:
      return "TG_CALLBACK";
    case TG_INTERNAL:
      return "TG_INTERNAL";
    default:
      return "unknown";
  }
}

}  // extern "C"
