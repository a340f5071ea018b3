// A double of what device_properties asks of cuDNN: a device's properties, which are the number and the name of the double's. Whatever
// else is asked ends the test.
#include <cudnn.h>

#include <algorithm>
#include <string>

#include "zeroshard/device/cuda/doubles/double_devices.h"
#include "zeroshard/device/late/end_test.h"

using zeroshard::device::EndTest;
using zeroshard::device::cuda::doubles::DoubleDevices;

namespace {

struct Properties {
  int32_t device = -1;
  std::string json;  // once they are finalized
};

Properties& Of(cudnnBackendDescriptor_t descriptor) { return *static_cast<Properties*>(descriptor); }

}  // namespace

extern "C" {

const char* cudnnGetErrorString(cudnnStatus_t) { return "an error of the double"; }

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t* descriptor) {
  if (type != CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR) EndTest("a descriptor of cuDNN's that is no device's properties");
  *descriptor = new Properties;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  delete &Of(descriptor);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count, const void* value) {
  if (name != CUDNN_ATTR_DEVICEPROP_DEVICE_ID || type != CUDNN_TYPE_INT32 || count != 1) {
    EndTest("properties of a device that its number does not name");
  }
  const int32_t device = *static_cast<const int32_t*>(value);
  if (device < 0 || device >= DoubleDevices::Get().count()) return CUDNN_STATUS_BAD_PARAM;
  Of(descriptor).device = device;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
  Properties& properties = Of(descriptor);
  if (properties.device < 0) EndTest("properties are finalized before their device is named");
  properties.json = "{\"cudaDeviceId\": " + std::to_string(properties.device) +
                    ", \"deviceName\": \"double of a GPU\", \"deviceVer\": 900}";
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t most, int64_t* count, void* values) {
  if (name != CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION || type != CUDNN_TYPE_CHAR) {
    EndTest("a property of a device's that is not all of them as JSON");
  }
  const std::string& json = Of(descriptor).json;
  if (json.empty()) EndTest("properties are read before they are finalized");
  *count = static_cast<int64_t>(json.size());
  std::copy_n(json.data(), std::min(most, *count), static_cast<char*>(values));
  return CUDNN_STATUS_SUCCESS;
}

}  // extern "C"
