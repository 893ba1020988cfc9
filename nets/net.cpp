#include "nets/net.h"

#include <array>

#include "kernels/errors.h"
#include "nets/cifar10_alexnet.h"
#include "nets/cpu/cpu_net.h"
#include "nets/lenet.h"
#include "nets/net_plan.h"

namespace terngrad {
namespace {

struct RegisteredNet {
  const char* name;
  NetSpec (*spec)();
};

/// Every net there is: a new one is one source that describes it and one line here.
constexpr std::array kNets = {RegisteredNet{"lenet", lenet}, RegisteredNet{"cifar10_alexnet", cifar10_alexnet}};

}  // namespace

std::vector<std::string> net_names() {
  std::vector<std::string> names;
  names.reserve(std::size(kNets));
  for (const RegisteredNet& net : kNets) names.emplace_back(net.name);
  return names;
}

std::unique_ptr<Net> make_net(const std::string& name, const ImageShape& shape, int num_classes,
                              const NetOptions& options) {
  std::string known;
  for (const RegisteredNet& net : kNets) {
    if (name == net.name) return cpu::make_net(plan_net(net.spec(), shape, num_classes), options);
    known += (known.empty() ? "" : ", ") + std::string(net.name);
  }
  TERNGRAD_THROW(InvalidArgument, "[make_net] there is no net '", name, "'; there are: ", known);
}

}  // namespace terngrad
