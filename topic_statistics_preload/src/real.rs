// SPDX-License-Identifier: Apache-2.0

//! Finds the process's own functions, which the functions of this library call.
//!
//! `RTLD_NEXT` finds these functions if the program is linked to rmw. Python opens its libraries with `RTLD_LOCAL`, so
//! `RTLD_NEXT` finds nothing. In that case, this module searches the loaded libraries by name. A library in which a
//! function was found is never unloaded, so the address of the function stays valid.

use std::{
    ffi::{c_char, c_void, CStr, CString},
    mem::{transmute, MaybeUninit},
    ptr::null_mut,
    sync::atomic::{AtomicPtr, Ordering},
};

use crate::{abi::*, fork};

/// The libraries in which the functions are searched, in this order. A search in librcl also finds the functions of
/// rmw, because librcl is linked to the library that defines them.
const LIBRARIES: [&CStr; 7] = [
    c"librcl.so",
    c"librmw_implementation.so",
    c"librmw_fastrtps_cpp.so",
    c"librmw_cyclonedds_cpp.so",
    c"librmw_zenoh_cpp.so",
    c"librmw_connextdds.so",
    c"libtracetools.so",
];

pub struct Symbol {
    name: &'static str,
    /// The address of the function; null until the function is found.
    address: AtomicPtr<c_void>,
}

impl Symbol {
    pub const fn new(name: &'static str) -> Self {
        Self { name, address: AtomicPtr::new(null_mut()) }
    }

    #[inline]
    pub fn get(&self) -> *mut c_void {
        let known = self.address.load(Ordering::Acquire);
        if known.is_null() {
            fork::with_blocked_forks(|| self.find())
        } else {
            known
        }
    }

    #[cold]
    #[inline(never)]
    fn find(&self) -> *mut c_void {
        // SAFETY: The name ends with NUL.
        let next = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr().cast()) };
        let found = std::iter::once(next)
            .chain(LIBRARIES.iter().map(|library| self.find_in(library)))
            .find(|address| !address.is_null() && !is_ours(*address));
        let Some(address) = found else { return null_mut() };
        pin(address);
        self.address.store(address, Ordering::Release);
        address
    }

    /// Returns the address of the function in a loaded library, or in a library that the loaded library is linked to;
    /// null if the function is not found.
    fn find_in(&self, library: &CStr) -> *mut c_void {
        // SAFETY: The name ends with NUL. With RTLD_NOLOAD nothing is loaded, and no code runs.
        let handle = unsafe { libc::dlopen(library.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
        if handle.is_null() {
            return null_mut();
        }
        // SAFETY: The handle was opened here, and the name ends with NUL.
        unsafe { libc::dlsym(handle, self.name.as_ptr().cast()) }
    }
}

fn find_object(address: *const c_void) -> Option<libc::Dl_info> {
    let mut info = MaybeUninit::uninit();
    // SAFETY: dladdr accepts any address, and fills the struct unless it returns 0.
    match unsafe { libc::dladdr(address, info.as_mut_ptr()) } {
        0 => None,
        // SAFETY: dladdr has filled the struct.
        _ => Some(unsafe { info.assume_init() }),
    }
}

/// Returns whether an address is in `libtopic_statistics_preload.so` itself.
fn is_ours(address: *const c_void) -> bool {
    static HERE: u8 = 0;
    let base = |address| find_object(address).map(|object| object.dli_fbase);
    base(address) == base(std::ptr::from_ref(&HERE).cast())
}

/// Prevents the library that contains this address from being unloaded.
fn pin(address: *const c_void) {
    let Some(object) = find_object(address) else { return };
    // SAFETY: `dli_fname` is the name of a loaded object. With RTLD_NOLOAD nothing is loaded. The handle stays open.
    unsafe { libc::dlopen(object.dli_fname, libc::RTLD_LAZY | libc::RTLD_NOLOAD | libc::RTLD_NODELETE) };
}

/// Returns the process's own function with this name and type; `None` if no library has it.
macro_rules! real {
    ($name:ident: $type:ty) => {{
        static SYMBOL: $crate::real::Symbol = $crate::real::Symbol::new(concat!(stringify!($name), "\0"));
        // SAFETY: A null pointer is `None`. The C header declares the function with this name with this type.
        unsafe { std::mem::transmute::<*mut std::ffi::c_void, Option<$type>>(SYMBOL.get()) }
    }};
}

macro_rules! any {
    ($argument:expr) => {
        _
    };
}

/// Exports functions of C under their names. Each function follows the rules of its C header.
macro_rules! export {
    ($(fn $name:ident($($argument:ident: $type:ty),* $(,)?) $(-> $result:ty)? $body:block)+) => {$(
        #[no_mangle]
        pub unsafe extern "C-unwind" fn $name($($argument: $type),*) $(-> $result)? $body
    )+};
}

/// Calls the process's own function with the arguments of the exported function of the same name, so both have the same
/// type. If no library has the function, logs a line and returns the value after `else`, or `UNSUPPORTED`.
macro_rules! call {
    ($name:ident($($argument:expr),*)) => { call!($name($($argument),*) else UNSUPPORTED) };
    ($name:ident($($argument:expr),*) else $missing:expr) => {
        match real!($name: unsafe extern "C-unwind" fn($(any!($argument)),*) -> _) {
            // SAFETY: The caller has passed the arguments, and follows the rules of the header.
            Some(real) => unsafe { real($($argument),*) },
            None => {
                let _written = protect(|| line(concat!(stringify!($name), " is called and no library has it")));
                return $missing;
            }
        }
    };
}

/// As `call`, for a function without a result. Does nothing if no library has the function.
macro_rules! pass_on {
    ($name:ident($($argument:expr),*)) => {
        if let Some(real) = real!($name: unsafe extern "C-unwind" fn($(any!($argument)),*)) {
            // SAFETY: The caller has passed the arguments, and follows the rules of the header.
            unsafe { real($($argument),*) };
        }
    };
}
pub(crate) use {any, call, export, pass_on, real};

/// Defines functions that return the process's own functions, which the statistics call.
macro_rules! own {
    ($($name:ident($($argument:ty),*) $(-> $result:ty)?;)+) => {$(
        #[inline]
        pub fn $name() -> Option<unsafe extern "C-unwind" fn($($argument),*) $(-> $result)?> {
            real!($name: unsafe extern "C-unwind" fn($($argument),*) $(-> $result)?)
        }
    )+};
}

own! {
    rmw_get_gid_for_publisher(*const Endpoint, *mut GidBuffer) -> Ret;
    rmw_create_publisher(
        *const Node, *const TypeSupport, *const c_char, *const Qos, *const PublisherOptions
    ) -> *mut Endpoint;
    rmw_destroy_publisher(*mut Node, *mut Endpoint) -> Ret;
    rmw_publish(*const Endpoint, *const c_void, *mut c_void) -> Ret;
    rcl_timer_get_period(*const c_void, *mut i64) -> Ret;
    rcl_timer_clock(*const c_void, *mut *const Clock) -> Ret;
    rcl_publisher_get_rmw_handle(*const c_void) -> *const Endpoint;
    rcl_node_get_rmw_handle(*const c_void) -> *const Node;
    ros_trace_enabled_rclcpp_callback_register() -> bool;
    rcutils_reset_error();
}

/// Returns the C type support of a message type; `None` if the library of the type is not found.
///
/// The library is searched in the paths of the dynamic linker, and in `lib` of each prefix in AMENT_PREFIX_PATH. The
/// library stays loaded.
pub fn type_support(package: &str, name: &str) -> Option<*const TypeSupport> {
    let library = format!("lib{package}__rosidl_typesupport_c.so");
    let prefixes = std::env::var_os("AMENT_PREFIX_PATH").unwrap_or_default();
    let in_prefixes = std::env::split_paths(&prefixes)
        .map(|prefix| prefix.join("lib").join(&library).to_string_lossy().into_owned());
    let paths = std::iter::once(library.clone()).chain(in_prefixes);
    let symbol = format!("rosidl_typesupport_c__get_message_type_support_handle__{package}__msg__{name}");
    let symbol = CString::new(symbol).ok()?;
    paths.filter_map(|path| CString::new(path).ok()).find_map(|path| {
        // SAFETY: The name ends with NUL. Loading the library runs only ROS's own code.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_LAZY | libc::RTLD_LOCAL) };
        if handle.is_null() {
            return None;
        }
        // SAFETY: The handle was opened here, and the name ends with NUL.
        let function = unsafe { libc::dlsym(handle, symbol.as_ptr()) };
        if function.is_null() {
            return None;
        }
        // SAFETY: rosidl generates the function with this name with this type.
        let function = unsafe {
            transmute::<*mut c_void, unsafe extern "C-unwind" fn() -> *const TypeSupport>(function)
        };
        // SAFETY: The function has no preconditions.
        Some(unsafe { function() })
    })
}
