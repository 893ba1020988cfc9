#include "nets/net.h"

#include <array>

#include "kernels/runtime/errors.h"
#include "nets/cpu/cpu_net.h"
#include "nets/models/alexnet.h"
#include "nets/models/alexnet_v2.h"
#include "nets/models/cifar10_alexnet.h"
#include "nets/models/cifarnet.h"
#include "nets/models/googlenet.h"
#include "nets/models/googlenet_2014.h"
#include "nets/models/inception_v3.h"
#include "nets/models/lenet.h"
#include "nets/models/resnet.h"
#include "nets/models/resnet_cifar.h"
#include "nets/models/vgg.h"
#include "nets/net_plan.h"

namespace terngrad {
namespace {

struct RegisteredNet {
  const char* name;
  NetSpec (*spec)(const NetConfig&);
};

/// Every net there is: a new one is one source that describes it and one line here.
constexpr std::array kNets = {
    RegisteredNet{"alexnet", [](const NetConfig& config) { return alexnet(config.dropout_keep_prob); }},
    RegisteredNet{"alexnet_v2", [](const NetConfig& config) { return alexnet_v2(config.dropout_keep_prob); }},
    RegisteredNet{"cifar10_alexnet", [](const NetConfig&) { return cifar10_alexnet(); }},
    RegisteredNet{"cifarnet", [](const NetConfig& config) { return cifarnet(config.dropout_keep_prob); }},
    RegisteredNet{"googlenet", [](const NetConfig& config) { return googlenet(config.dropout_keep_prob); }},
    RegisteredNet{"googlenet_2014", [](const NetConfig& config) { return googlenet_2014(config.dropout_keep_prob); }},
    RegisteredNet{"inception_v3", [](const NetConfig& config) { return inception_v3(config.dropout_keep_prob); }},
    RegisteredNet{"lenet", [](const NetConfig&) { return lenet(); }},
    RegisteredNet{"resnet_18", [](const NetConfig&) { return resnet_18(); }},
    RegisteredNet{"resnet_18_cifar", [](const NetConfig&) { return resnet_18_cifar(); }},
    RegisteredNet{"resnet_20", [](const NetConfig&) { return resnet_cifar("resnet_20", 3); }},
    RegisteredNet{"resnet_50", [](const NetConfig&) { return resnet_50(); }},
    RegisteredNet{"resnet_56", [](const NetConfig&) { return resnet_cifar("resnet_56", 9); }},
    RegisteredNet{"vgg_16",
                  [](const NetConfig& config) {
                    return vgg("vgg_16", {2, 2, 3, 3, 3}, config.dropout_keep_prob);
                  }},
    RegisteredNet{"vgg_a",
                  [](const NetConfig& config) {
                    return vgg("vgg_a", {1, 1, 2, 2, 2}, config.dropout_keep_prob);
                  }},
};

}  // namespace

std::vector<int> Net::gradient_order() const {
  std::vector<int> order;
  for (int segment = layout().num_segments(); segment-- > 0;) order.push_back(segment);
  return order;
}

std::vector<std::string> net_names() {
  std::vector<std::string> names;
  names.reserve(std::size(kNets));
  for (const RegisteredNet& net : kNets) names.emplace_back(net.name);
  return names;
}

NetSpec net_spec(const std::string& name, const NetConfig& config) {
  std::string known;
  for (const RegisteredNet& net : kNets) {
    if (name == net.name) return net.spec(config);
    known += (known.empty() ? "" : ", ") + std::string(net.name);
  }
  TERNGRAD_THROW(InvalidArgument, "[net_spec] there is no net '", name, "'; there are: ", known);
}

std::unique_ptr<Net> make_net(const NetSpec& spec, const ImageShape& shape, int num_classes,
                              const NetOptions& options) {
  return cpu::make_net(plan_net(spec, shape, num_classes), options);
}

std::unique_ptr<Net> make_net(const std::string& name, const ImageShape& shape, int num_classes,
                              const NetOptions& options, const NetConfig& config) {
  return make_net(net_spec(name, config), shape, num_classes, options);
}

}  // namespace terngrad
