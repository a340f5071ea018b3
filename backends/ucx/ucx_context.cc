#include "zeroshard/backends/ucx/ucx_context.h"

#include <array>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "glog/logging.h"
#include "ucs/debug/log_def.h"
#include "zeroshard/backends/ucx/ucx_errors.h"
#include "zeroshard/device/status_macros.h"

namespace zeroshard::backends {
namespace {

// Errors of peers are told by statuses, with more to them; here they are for whoever looks for causes.
ucs_log_func_rc_t Log(const char* file, unsigned line, const char* /*function*/, ucs_log_level_t level,
                      const ucs_log_component_config_t* /*component*/, const char* message, va_list arguments) {
  if (level > UCS_LOG_LEVEL_WARN) return UCS_LOG_FUNC_RC_CONTINUE;  // Only where the user asked UCX for it.
  std::array<char, 512> text;
  va_list copy;
  va_copy(copy, arguments);
  std::vsnprintf(text.data(), text.size(), message, copy);
  va_end(copy);
  if (level == UCS_LOG_LEVEL_FATAL) {
    LOG(ERROR) << "UCX: " << text.data() << " (" << file << ":" << line << ")";
  } else {
    VLOG(1) << "UCX: " << text.data() << " (" << file << ":" << line << ")";
  }
  return UCS_LOG_FUNC_RC_STOP;
}

struct Setting {
  const char* name;
  const char* value;
};

// UCX 1.13 takes these from the environment alone (ucp_config_modify calls them invalid), and without them it leaves shared
// memory for TCP where it is to tell of failed peers. Set before there are threads, since nobody may read the environment
// meanwhile.
[[maybe_unused]] const bool kInEnvironment = [] {
  setenv("UCX_SYSV_ERROR_HANDLING", "y", /*overwrite=*/0);
  setenv("UCX_POSIX_ERROR_HANDLING", "y", /*overwrite=*/0);
  return true;
}();

// Whether no RDMA port is among what carries messages between hosts: those have a colon, "mlx5_0:1".
bool OverTcpAlone(const UcxNetworks& networks) {
  if (const char* const ways = std::getenv("UCX_TLS"); ways != nullptr) return std::string_view(ways) == "tcp";
  const char* const said = std::getenv("UCX_NET_DEVICES");
  const std::string_view devices = said != nullptr ? std::string_view(said) : std::string_view(networks.devices);
  return !devices.empty() && devices.find(':') == std::string_view::npos;
}

constexpr Setting kSettings[] = {
    {"KEEPALIVE_INTERVAL", "1s"},
    {"KEEPALIVE_NUM_EPS", "1024"},
};

class Configuration {
 public:
  ~Configuration() {
    if (config_ != nullptr) ucp_config_release(config_);
  }
  absl::Status Read(UcxWays ways, const UcxNetworks& networks) {
    ZS_RETURN_IF_ERROR(FromUcx(ucp_config_read(nullptr, nullptr, &config_), "reading its configuration"));
    for (const Setting& setting : kSettings) ZS_RETURN_IF_ERROR(Set(setting));
    if (ways == UcxWays::kSharedMemory) return Set({"TLS", "sysv"});
    ZS_RETURN_IF_ERROR(SetUnlessSaid("UCX_TLS", {"TLS", "^cma,posix"}));
    ZS_RETURN_IF_ERROR(SetUnlessSaid("UCX_NET_DEVICES", {"NET_DEVICES", networks.devices.c_str()}));
    // UCX 1.13 polls a network that it does not use yet once, while it makes a worker, and ends the process where somebody is there
    // already: TCP listens by then. So networks are polled with all others from the beginning.
    ZS_RETURN_IF_ERROR(SetUnlessSaid("UCX_ADAPTIVE_PROGRESS", {"ADAPTIVE_PROGRESS", "n"}));
    if (OverTcpAlone(networks)) ZS_RETURN_IF_ERROR(SetUnlessSaid("UCX_RNDV_THRESH", {"RNDV_THRESH", "inf"}));
    // Settings of TCP: UCX 1.13 takes those of transports and their memory domains without a prefix. It looks for a free port of a range
    // for as long as there is none; one port it tries once.
    const std::string port = networks.port == 0 ? "" : absl::StrCat(networks.port);
    ZS_RETURN_IF_ERROR(SetUnlessSaid("UCX_TCP_PORT_RANGE", {"PORT_RANGE", port.c_str()}));
    return SetUnlessSaid("UCX_TCP_AF_PRIO", {"AF_PRIO", networks.families.c_str()});
  }
  const ucp_config_t* get() const { return config_; }

 private:
  // Where there is something to say, and the environment does not say it.
  absl::Status SetUnlessSaid(const char* variable, const Setting& setting) {
    return std::getenv(variable) != nullptr || *setting.value == '\0' ? absl::OkStatus() : Set(setting);
  }
  absl::Status Set(const Setting& setting) {
    return FromUcx(ucp_config_modify(config_, setting.name, setting.value),
                   absl::StrCat("setting ", setting.name, "=", setting.value));
  }

  ucp_config_t* config_ = nullptr;
};

}  // namespace

absl::StatusOr<std::unique_ptr<UcxContext>> UcxContext::Create(int world_size, UcxWays ways, const UcxNetworks& networks) {
  static const bool logs = (ucs_log_push_handler(&Log), true);
  static_cast<void>(logs);
  Configuration configuration;
  ZS_RETURN_IF_ERROR(configuration.Read(ways, networks));
  ucp_params_t parameters = {};
  parameters.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_ESTIMATED_NUM_EPS;
  parameters.features = UCP_FEATURE_TAG | UCP_FEATURE_RMA | UCP_FEATURE_WAKEUP;
  parameters.estimated_num_eps = static_cast<size_t>(world_size);
  ucp_context_h context = nullptr;
  ZS_RETURN_IF_ERROR(FromUcx(ucp_init(&parameters, configuration.get(), &context),
                             networks.devices.empty() ? "starting" : absl::StrCat("starting on ", networks.devices)));
  return std::unique_ptr<UcxContext>(new UcxContext(context));
}

}  // namespace zeroshard::backends
