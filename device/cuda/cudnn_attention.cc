// The one file that includes cuDNN's frontend, which takes the compiler a minute.
#include "zeroshard/device/cuda/cudnn_attention.h"

#include <cudnn.h>
#include <cudnn_frontend.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "zeroshard/device/status_macros.h"
#include "zeroshard/device/vendor_scope.h"

namespace zeroshard::device::cuda {
namespace {

namespace fe = cudnn_frontend;
using Tensor = std::shared_ptr<fe::graph::Tensor_attributes>;

// Names of a graph's tensors, by which a run hands memory over.
enum Uid : int64_t { kQ = 1, kK, kV, kOut, kStats, kDOut, kDQ, kDK, kDV };

std::string Describe(const AttentionSpec& s) {
  return absl::StrCat("attention [", s.batch, ", ", s.heads, ", ", s.context, ", ", s.head_width, "] in ",
                      std::string(Name(s.dtype)));
}

absl::Status OfCudnn(cudnnStatus_t status, const std::string& doing) {
  if (status == CUDNN_STATUS_SUCCESS) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("cuDNN: ", doing, ": ", cudnnGetErrorString(status)));
}

// What cuDNN cannot do is kUnimplemented: our kernels can.
absl::Status OfGraph(fe::error_t error, const std::string& doing) {
  if (error.is_good()) return absl::OkStatus();
  return absl::UnimplementedError(absl::StrCat("cuDNN: ", doing, ": ", error.get_message()));
}

fe::DataType_t TypeOf(DType dtype) { return dtype == DType::kBfloat16 ? fe::DataType_t::BFLOAT16 : fe::DataType_t::HALF; }

// [batch, heads, context, head_width] where it lies among `parts` matrices side by side.
Tensor Heads(fe::graph::Graph& graph, const AttentionSpec& s, Uid uid, int64_t parts) {
  const int64_t row = parts * s.heads * s.head_width;
  return graph.tensor(fe::graph::Tensor_attributes()
                          .set_uid(uid)
                          .set_dim({s.batch, s.heads, s.context, s.head_width})
                          .set_stride({s.context * row, s.head_width, row, 1}));
}

void MakeOutput(const Tensor& tensor, const AttentionSpec& s, Uid uid, int64_t parts) {
  const int64_t row = parts * s.heads * s.head_width;
  tensor->set_output(true)
      .set_uid(uid)
      .set_dim({s.batch, s.heads, s.context, s.head_width})
      .set_stride({s.context * row, s.head_width, row, 1});
}

// sm_version: 90; 0: this thread's device's. To be said before the graph has nodes.
std::unique_ptr<fe::graph::Graph> MakeGraph(const AttentionSpec& s, int sm_version) {
  auto graph = std::make_unique<fe::graph::Graph>();
  if (sm_version != 0) graph->set_sm_version(sm_version);
  graph->set_io_data_type(TypeOf(s.dtype))
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT);
  return graph;
}

float ScaleOf(const AttentionSpec& s) { return 1 / std::sqrt(static_cast<float>(s.head_width)); }

std::unique_ptr<fe::graph::Graph> ForwardGraph(const AttentionSpec& s, int sm_version = 0) {
  auto graph = MakeGraph(s, sm_version);
  auto [out, stats] = graph->sdpa(Heads(*graph, s, kQ, 3), Heads(*graph, s, kK, 3), Heads(*graph, s, kV, 3),
                                  fe::graph::SDPA_attributes()
                                      .set_name("attention")
                                      .set_generate_stats(true)
                                      .set_causal_mask(true)
                                      .set_attn_scale(ScaleOf(s)));
  MakeOutput(out, s, kOut, 1);
  stats->set_output(true).set_uid(kStats).set_data_type(fe::DataType_t::FLOAT);
  return graph;
}

std::unique_ptr<fe::graph::Graph> BackwardGraph(const AttentionSpec& s, int sm_version = 0) {
  auto graph = MakeGraph(s, sm_version);
  auto stats = graph->tensor(fe::graph::Tensor_attributes()
                                 .set_uid(kStats)
                                 .set_dim({s.batch, s.heads, s.context, 1})
                                 .set_stride({s.heads * s.context, s.context, 1, 1})
                                 .set_data_type(fe::DataType_t::FLOAT));
  // Deterministic: without it the gradients of queries are added by atomics.
  auto [d_q, d_k, d_v] = graph->sdpa_backward(Heads(*graph, s, kQ, 3), Heads(*graph, s, kK, 3), Heads(*graph, s, kV, 3),
                                              Heads(*graph, s, kOut, 1), Heads(*graph, s, kDOut, 1), stats,
                                              fe::graph::SDPA_backward_attributes()
                                                  .set_name("attention's gradient")
                                                  .set_causal_mask(true)
                                                  .set_attn_scale(ScaleOf(s))
                                                  .set_deterministic_algorithm(true));
  MakeOutput(d_q, s, kDQ, 3);
  MakeOutput(d_k, s, kDK, 3);
  MakeOutput(d_v, s, kDV, 3);
  return graph;
}

// The heuristics' first plan that is supported: never a timed one.
absl::Status Plan(fe::graph::Graph& graph, cudnnHandle_t handle, const std::string& what) {
  ZS_RETURN_IF_ERROR(OfGraph(graph.validate(), what));
  ZS_RETURN_IF_ERROR(OfGraph(graph.build_operation_graph(handle), what));
  ZS_RETURN_IF_ERROR(OfGraph(graph.create_execution_plans({fe::HeurMode_t::A}), what));
  return OfGraph(graph.check_support(), what);
}

class CudnnHandle {
 public:
  ~CudnnHandle() {
    if (handle_ != nullptr) cudnnDestroy(handle_);
  }
  absl::Status Make() { return OfCudnn(cudnnCreate(&handle_), "starting"); }
  cudnnHandle_t get() const { return handle_; }

 private:
  cudnnHandle_t handle_ = nullptr;
};

class CudnnAttention final : public Attention {
 public:
  explicit CudnnAttention(const AttentionSpec& spec)
      : spec_(spec), forward_(ForwardGraph(spec)), backward_(BackwardGraph(spec)) {
    for (const Uid uid : {kQ, kK, kV, kOut, kStats}) forward_memory_[uid] = nullptr;
    for (const Uid uid : {kQ, kK, kV, kOut, kStats, kDOut, kDQ, kDK, kDV}) backward_memory_[uid] = nullptr;
  }

  absl::Status Build() {
    const std::string what = Describe(spec_);
    ZS_RETURN_IF_ERROR(handle_.Make());
    for (fe::graph::Graph* graph : {forward_.get(), backward_.get()}) {
      ZS_RETURN_IF_ERROR(Plan(*graph, handle_.get(), what));
      ZS_RETURN_IF_ERROR(OfGraph(graph->build_plans(), what));
      int64_t bytes = 0;
      ZS_RETURN_IF_ERROR(OfGraph(graph->get_workspace_size(bytes), what));
      workspace_bytes_ = std::max(workspace_bytes_, bytes);
    }
    return absl::OkStatus();
  }

  const AttentionSpec& spec() const override { return spec_; }
  int64_t workspace_bytes() const override { return workspace_bytes_; }

  void Forward(Stream& stream, In qkv, Out out, Out log_sum_exp, InOut workspace) override {
    SetParts(forward_memory_, kQ, qkv.array);
    forward_memory_[kOut] = Pointer(out.array);
    forward_memory_[kStats] = Pointer(log_sum_exp.array);
    Run(*forward_, stream, forward_memory_, workspace.array);
  }

  void Backward(Stream& stream, In qkv, In out, In log_sum_exp, In d_out, Out d_qkv, InOut workspace) override {
    SetParts(backward_memory_, kQ, qkv.array);
    SetParts(backward_memory_, kDQ, d_qkv.array);
    backward_memory_[kOut] = Pointer(out.array);
    backward_memory_[kStats] = Pointer(log_sum_exp.array);
    backward_memory_[kDOut] = Pointer(d_out.array);
    Run(*backward_, stream, backward_memory_, workspace.array);
  }

 private:
  using Memory = std::unordered_map<int64_t, void*>;

  static void* Pointer(const Array& array) { return reinterpret_cast<void*>(array.address()); }

  // Queries, keys and values side by side in each row: three that follow one another from `first` on.
  void SetParts(Memory& memory, int64_t first, const Array& array) const {
    const int64_t width = spec_.heads * spec_.head_width;
    for (int64_t part = 0; part < 3; ++part) memory[first + part] = Pointer(array.Slice(part * width, width));
  }

  void Run(fe::graph::Graph& graph, Stream& stream, Memory& memory, const Array& workspace) {
    CudaStream& on = CudaStream::Of(stream);
    const VendorScope scope;
    const cudnnStatus_t set = cudnnSetStream(handle_.get(), on.native());
    if (set != CUDNN_STATUS_SUCCESS) return on.errors().Keep(OfCudnn(set, Describe(spec_)));
    fe::error_t error = graph.execute(handle_.get(), memory, Pointer(workspace));
    if (error.is_bad())
      on.errors().Keep(absl::InternalError(absl::StrCat("cuDNN: ", Describe(spec_), ": ", error.get_message())));
  }

  const AttentionSpec spec_;
  CudnnHandle handle_;
  const std::unique_ptr<fe::graph::Graph> forward_, backward_;
  Memory forward_memory_, backward_memory_;
  int64_t workspace_bytes_ = 0;
};

// On memory of no meaning.
absl::Status RunOnce(Attention& attention, Device& device, CudaStream& stream) {
  const AttentionSpec& s = attention.spec();
  const int64_t elements = s.batch * s.context * s.heads * s.head_width;
  const auto allocate = [&](int64_t bytes) { return device.Allocate(bytes, Use::kActivations, "attention's first run"); };
  ZS_ASSIGN_OR_RETURN(const Buffer memory, allocate(8 * elements * SizeOf(s.dtype)));
  ZS_ASSIGN_OR_RETURN(const Buffer stats, allocate(4 * s.batch * s.heads * s.context));
  ZS_ASSIGN_OR_RETURN(const Buffer workspace, allocate(attention.workspace_bytes()));
  const Array all = memory.array(s.dtype), qkv = all.Slice(0, 3 * elements), out = all.Slice(3 * elements, elements);
  const Array d_out = all.Slice(4 * elements, elements), d_qkv = all.Slice(5 * elements, 3 * elements);
  const Array scratch = workspace.array(DType::kUint8);
  attention.Forward(stream, qkv, out, stats.array(DType::kFloat32), scratch);
  attention.Backward(stream, qkv, out, stats.array(DType::kFloat32), d_out, d_qkv, scratch);
  stream.Synchronize();
  return device.status();
}

}  // namespace

int64_t CudnnVersion() { return static_cast<int64_t>(cudnnGetVersion()); }

absl::StatusOr<std::unique_ptr<Attention>> PlanCudnnAttention(const AttentionSpec& spec, Device& device, CudaStream& setup) {
  if (spec.dtype != DType::kBfloat16 && spec.dtype != DType::kFloat16) {
    return absl::UnimplementedError(absl::StrCat("cuDNN has no ", Describe(spec)));
  }
  static_cast<void>(setup.native());
  const VendorScope scope;
  auto attention = std::make_unique<CudnnAttention>(spec);
  ZS_RETURN_IF_ERROR(attention->Build());
  ZS_RETURN_IF_ERROR(RunOnce(*attention, device, setup));
  return attention;
}

absl::Status CheckCudnnGraphs(const AttentionSpec& spec, const std::string& device_properties, int sm_version) {
  auto properties = std::make_shared<fe::DeviceProperties>();
  ZS_RETURN_IF_ERROR(
      OfGraph(properties->deserialize({device_properties.begin(), device_properties.end()}), "device properties"));
  for (const auto& graph : {ForwardGraph(spec, sm_version), BackwardGraph(spec, sm_version)}) {
    graph->set_device_properties(properties);
    ZS_RETURN_IF_ERROR(Plan(*graph, nullptr, Describe(spec)));
  }
  return absl::OkStatus();
}

}  // namespace zeroshard::device::cuda
