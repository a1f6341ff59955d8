// SPDX-License-Identifier: Apache-2.0

//! The type supports of message and service types, in the libraries that rosidl generates for each package.

use std::{ffi::c_void, mem};

use libloading::Library;

/// Returns a symbol of a package's library. The library stays loaded, because the middleware may use its code and data
/// as long as the process runs.
///
/// # Safety
///
/// The symbol has the type `T`.
pub unsafe fn load<T: Copy>(package: &str, library: &str, symbol: &str) -> Result<T, String> {
    let prefix = ament_rs::Ament::new().ok().and_then(|ament| ament.find_package(package));
    let prefix = prefix.ok_or_else(|| format!("{package} is not on AMENT_PREFIX_PATH"))?;
    let path = format!("{prefix}/lib/lib{package}__{library}.so");
    // SAFETY: rosidl has generated the library. Loading the library runs only the library's own initialization.
    let library = unsafe { Library::new(path) }.map_err(|error| error.to_string())?;
    // SAFETY: The caller guarantees the type of the symbol.
    let found = unsafe { library.get::<T>(symbol.as_bytes()) };
    let found = found.map(|found| *found).map_err(|error| error.to_string());
    mem::forget(library);
    found
}

/// Returns the type support of a type, such as `msg__Imu`, from a package's library. `function` is
/// `get_message_type_support_handle` or `get_service_type_support_handle`.
pub fn type_support(
    package: &str,
    library: &str,
    function: &str,
    name: &str,
) -> Result<*const c_void, String> {
    let symbol = format!("{library}__{function}__{package}__{name}");
    // SAFETY: rosidl generates functions of this name with this signature.
    let get = unsafe { load::<unsafe extern "C" fn() -> *const c_void>(package, library, &symbol)? };
    // SAFETY: The function has no arguments.
    let found = unsafe { get() };
    match found.is_null() {
        true => Err(format!("{symbol} returns nothing")),
        false => Ok(found),
    }
}
