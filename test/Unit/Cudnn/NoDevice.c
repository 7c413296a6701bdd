/*===- NoDevice.c - driver stub without devices, for the real cuDNN -------===*/
/*
 * cuDNN plans for a device that a text describes; it needs the driver only to be present. Kernels
 * that it has compiled are "loaded", and nothing is launched. Its compiler (NVRTC) requests a
 * private table of the driver, and continues if the request fails; it crashes if the function is
 * missing.
 */

enum { success = 0, notSupported = 801 };

int cuGetExportTable(void) { return notSupported; }
int cuDriverGetVersion(int *version) {
  *version = 13000;
  return success;
}
int cuLibraryLoadData(void **library) {
  *library = (void *)1;
  return success;
}
int cuLibraryGetKernel(void **kernel) {
  *kernel = (void *)1;
  return success;
}
int cuLibraryGetModule(void **module) {
  *module = (void *)1;
  return success;
}
int cuKernelGetFunction(void **function) {
  *function = (void *)1;
  return success;
}

#define NOTHING(name)                                                                              \
  int name(void) { return success; }
NOTHING(cuGetErrorName)
NOTHING(cuGetErrorString)
NOTHING(cuInit)
NOTHING(cuCtxGetCurrent)
NOTHING(cuCtxGetLimit)
NOTHING(cuCtxPopCurrent)
NOTHING(cuCtxPushCurrent)
NOTHING(cuDeviceGet)
NOTHING(cuDeviceGetCount)
NOTHING(cuKernelGetAttribute)
NOTHING(cuKernelSetAttribute)
NOTHING(cuLaunchCooperativeKernel)
NOTHING(cuLaunchKernel)
NOTHING(cuLaunchKernelEx)
NOTHING(cuLibraryLoadFromFile)
NOTHING(cuLibraryUnload)
NOTHING(cuLinkAddData)
NOTHING(cuLinkComplete)
NOTHING(cuLinkCreate)
NOTHING(cuLinkDestroy)
NOTHING(cuOccupancyMaxPotentialClusterSize)
NOTHING(cuStreamGetCtx)
