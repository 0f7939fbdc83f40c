// A fake management library with one GPU, "GPU-fake": busy half of the time; each query adds 2 J.
#include <cstring>

namespace {
int started = 0;
unsigned long long millijoules = 0;
char device;
}  // namespace

extern "C" {

int nvmlInit_v2() {
  ++started;
  return 0;
}

int nvmlShutdown() {
  return --started < 0 ? 1 : 0;
}

int fake_nvml_started() {
  return started;
}

int nvmlDeviceGetHandleByUUID(const char* uuid, void** handle) {
  *handle = &device;
  return std::strcmp(uuid, "GPU-fake") == 0 ? 0 : 6;
}

int nvmlDeviceGetUtilizationRates(void* handle, unsigned int* per_cent) {
  per_cent[0] = 50;
  per_cent[1] = 10;
  return handle == &device ? 0 : 2;
}

int nvmlDeviceGetMemoryInfo(void*, unsigned long long* bytes) {
  bytes[0] = 1000, bytes[1] = 400, bytes[2] = 600;
  return 0;
}

int nvmlDeviceGetPowerUsage(void*, unsigned int*) {
  return 3;  // not supported
}

int nvmlDeviceGetTotalEnergyConsumption(void*, unsigned long long* total) {
  *total = millijoules += 2000;
  return 0;
}
}
