//! Tests of names in each form, and of hostile ones.

use super::*;
use crate::damage;

#[test]
fn each_language() {
    for (raw, want) in [
        ("malloc", "malloc"),
        ("_ZN3std2io5Write9write_all17h0123456789abcdefE", "std::io::Write::write_all"),
        ("_RNvCskwGfYPst2Cb_3foo16example_function", "foo::example_function"),
        ("_ZN3foo3barEi", "foo::bar"),
        ("_ZN4llvm11PassManagerINS_8FunctionEJEE3runEv", "llvm::PassManager<llvm::Function>::run"),
        ("_ZNK3foo3barEv", "foo::bar"),
        ("_ZNKO3fooaNERKS_", "foo::operator&="),
        ("_ZNR3fooadEv", "foo::operator&"),
        ("_ZNK3fooaaEv", "foo::operator&&"),
        ("_Z", "_Z"),
        ("_ZN1AILm16EE1fEv", "A<16ul>::f"),
        ("_ZN1AILj3ELln4ELx5ELy6ELi7ELc97ELb1EE1fEv", "A<3u, -4l, 5ll, 6ull, 7, (char)97, true>::f"),
        ("_ZNSt6vectorIiSaIiEE9push_backERKi@plt", "std::vector<int, std::allocator<int> >::push_back@plt"),
        ("_ZN3foo3barEi@@VERS_1", "foo::bar@@VERS_1"),
        ("_ZThn8_N1X1fEv", "non-virtual thunk to X::f"),
        ("_ZThn16_N1a1bD0Ev", "non-virtual thunk to a::b::~b"),
        ("_ZTv0_n24_NK1X1fEv", "virtual thunk to X::f"),
        ("_ZTch0_v0_n24_N1X1fEv", "covariant return thunk to X::f"),
        ("_ZTVN1a1BIiEE", "vtable for a::B<int>"),
        ("_ZTT1A", "VTT for A"),
        ("_ZTC1A0_1B", "construction vtable for B-in-A"),
        // Names that c++filt demangles and the library does not.
        ("_ZN2mmW3modW4part1fIiEET_S3_", "mm::f@mod.part<int>"),
        ("_ZN2mmW3modW4part1S1hEv", "mm::S@mod.part::h"),
        ("_ZW3modW4part4userv", "user@mod.part"),
        ("_ZGIW3modW4part", "initializer for module mod.part"),
        ("_ZN3app2unIXtlNS_1UEdi1aLi1EEEEEiv", "app::un<app::U{.a=(1)}>"),
        ("_Z1pIXtl1Wtl1Udi1vtl1VLi3EEELi1EEEEPKvv", "p<W{U{.v=V{3}}, 1}>"),
        ("_Z1pIXtl1WLi10Etl1Udi1lLl10EEEEEPKvv", "p<W{10, U{.l=(10l)}}>"),
        ("_ZTAXtl1AEE", "template parameter object for A{}"),
        ("_ZTAXtl1BLin1EEE", "template parameter object for B{-1}"),
        ("_ZTAXtl1Ctl1BLi1EELc120EEE", "template parameter object for C{B{1}, (char)120}"),
        ("_ZTAXtl1DtlA3_iLi0ELi0ELi5EEEE", "template parameter object for D{int [3]{0, 0, 5}}"),
        ("_ZTAXtl2S2adL_Z5globiEEE", "template parameter object for S2{&globi}"),
        (
            "_ZTAXtl3StrILi3EEtlA3_cLc104ELc105EEEE",
            "template parameter object for Str<3>{char [3]{(char)104, (char)105}}",
        ),
        ("_ZTAXtlN2ns1FELNS_1KE1ELln7EEE", "template parameter object for ns::F{(ns::K)1, -7l}"),
        ("_ZTAXtlN2ns1GEtlNS_1UEdi1aLi3EEEE", "template parameter object for ns::G{ns::U{.a=(3)}}"),
        (
            "_ZTAXtlN2ns1GEtlNS_1UEdi1bLf3fc00000EEEE",
            "template parameter object for ns::G{ns::U{.b=((float)[3fc00000])}}",
        ),
        ("_ZTAXtlN2ns1LELx1ELy2ELs3EEE", "template parameter object for ns::L{1ll, 2ull, (short)3}"),
        ("_ZTAXtlN2ns1PEadL_ZN1B1yEEEE", "template parameter object for ns::P{&B::y}"),
        ("_ZTAXtlN2ns2T2I1BEEtlS1_Li1ELi2EELj5EEE", "template parameter object for ns::T2<B>{B{1, 2}, 5u}"),
        ("_ZTAXtlN3tabMUlvE_EEE", "template parameter object for tab::{lambda()#1}{}"),
        ("_ZTAXadL_Z4globEE", "template parameter object for &glob"),
        ("_ZTALPKi0E", "template parameter object for (int const*)0"),
        ("_Z41__s1Wtl1Udi1vtl1VLi3EEELi1EEE", "_Z41__s1Wtl1Udi1vtl1VLi3EEELi1EEE"),
        ("_ZTAX", "_ZTAX"),
        ("_ZTA", "_ZTA"),
        ("_ZN3app1DD5Ev", "app::D::~D"),
        ("_ZDC2x12x2E", "[x1, x2]"),
        ("_ZN2nsDC5alpha4betaEE", "ns::[alpha, beta]"),
        ("_GLOBAL__sub_I__ZDC2x12x2E", "global constructors keyed to [x1, x2]"),
        ("_ZNSaIiEC5Ev", "std::allocator<int>::allocator"),
        ("_ZN3fooawEv", "foo::operator co_await"),
        ("_Zli3_kmy", "operator\"\" _km"),
        ("_ZN3appli3_kmEy", "app::operator\"\" _km"),
        ("_ZZN3foo3barEvENKUlTyT_E_clIiEEDaS0_", "foo::bar()::{lambda(auto:1)#1}::operator()<int>"),
        ("_Z1gITkSt8integraliEvT_", "g<int>"),
        ("_ZN3foo1fINS_1TEEEvT_Q4testIS1_E", "foo::f<foo::T>"),
        (
            "_ZSt4swapIiENSt9enable_ifIXsrSt6__and_IJSt6__not_ISt15__is_tuple_likeIT_EESt21is_move_constructibleIS4_\
             ESt18is_move_assignableIS4_EEE5valueEvE4typeERS4_SE_",
            "std::swap<int>",
        ),
        ("_GLOBAL__sub_I__ZN3foo3barEi", "global constructors keyed to foo::bar"),
        ("_GLOBAL__D__ZN3foo3barEi", "global destructors keyed to foo::bar"),
        ("_GLOBAL__sub_I_main.cpp", "_GLOBAL__sub_I_main.cpp"),
        ("_ZGA1fv", "hidden alias for f"),
        ("___Z3foov_block_invoke_2", "invocation function for block in foo"),
        ("___Z3foov_block_invoke_x", "___Z3foov_block_invoke_x"),
        // Suffixes that compilers append.
        ("_ZN3foo3barEi.part.0.isra.1.constprop.2.cold", "foo::bar"),
        ("_ZN3foo3barEi.llvm.1234567890", "foo::bar"),
        ("_ZN3foo3barB5cxx11Ev", "foo::bar[abi:cxx11]"),
        ("_RNCNvCsgStHSCytQ6I_7mycrate4main0B3_", "mycrate::main::{closure#0}"),
        ("_RNvCs1234_7mycrate3foo.llvm.123", "mycrate::foo"),
        ("_Z3fooGARBAGE", "_Z3fooGARBAGE"),
        ("_ZThn8_", "_ZThn8_"),
        ("_ZTh", "_ZTh"),
        ("_ZTcv0_", "_ZTcv0_"),
        ("memcpy@plt", "memcpy@plt"),
        // The same functions in Go's own profiles.
        ("runtime.goexit.abi0", "runtime.goexit"),
        ("runtime.memmove.abiinternal", "runtime.memmove"),
        ("main.abi0x", "main.abi0x"),
        ("__pfx_schedule", "__pfx_schedule"),
    ] {
        assert_eq!(demangle(raw.as_bytes(), NameForm::Plain), want);
    }
    assert_eq!(demangle(b"\xff\x00x", NameForm::Plain), "\u{fffd}\0x");
}

#[test]
fn short_plain_full_and_raw() {
    let raw = b"_ZN4shop6EngineIiE4stepEif";
    let of = |form| demangle(raw, form);
    assert_eq!(of(NameForm::Short), "shop::Engine<…>::step");
    assert_eq!(of(NameForm::Plain), "shop::Engine<int>::step");
    assert_eq!(of(NameForm::Full), "shop::Engine<int>::step(int, float)");
    assert_eq!(of(NameForm::Raw).as_bytes(), raw);
    assert_eq!(demangle(b"runtime.goexit.abi0", NameForm::Raw), "runtime.goexit.abi0");
    for (name, want) in [
        ("<ledger::Book<u32> as ledger::Post>::post", "<ledger::Book<…> as ledger::Post>::post"),
        ("std::map<int, std::vector<char>>::find", "std::map<…>::find"),
        ("Money::operator<", "Money::operator<"),
        ("Money::operator<< <char>", "Money::operator<< <…>"),
        ("a::operator->", "a::operator->"),
        ("f<&(a->b)>::g", "f<…>::g"),
        ("cut<short", "cut<short"),
    ] {
        assert_eq!(without_arguments(name), want);
    }
}

#[test]
fn arguments_begin_outside_of_templates_and_lambdas() {
    for (name, want) in [
        ("f", "f"),
        ("f(int, char)", "f"),
        ("(anonymous namespace)::g(int)", "(anonymous namespace)::g"),
        ("A<(char)97>::f", "A<(char)97>::f"),
        ("A<void (int)>::g(int) const", "A<void (int)>::g"),
        ("Foo::operator()(int) const", "Foo::operator()"),
        ("main::{lambda(int)#1}::operator()(int) const", "main::{lambda(int)#1}::operator()"),
        ("f(int)::Local::g(char)", "f(int)::Local::g"),
        ("f(int) const::Local::g(char)", "f(int) const::Local::g"),
        ("operator<(A, B)", "operator<"),
        ("operator<< <char>(A, B)", "operator<< <char>"),
        ("my_operator()", "my_operator"),
        ("A::operator->()", "A::operator->"),
        ("f<&(a->b)>(int)", "f<&(a->b)>"),
        ("(unknown)", "(unknown)"),
        ("cut(short", "cut"),
    ] {
        assert_eq!(&name[..arguments(name).unwrap_or(name.len())], want);
    }
}

/// Short names whose readable form has hundreds of megabytes. Each type contains the last one twice.
#[test]
fn a_name_that_doubles_stays_as_it_is() {
    let mut cpp = "_Z1fI1aEvSt4pairIiiE".to_owned();
    let id = |n: usize| match n {
        0 => "S_".to_owned(),
        n => format!("S{}_", char::from_digit(n as u32 - 1, 36).expect("a digit").to_ascii_uppercase()),
    };
    (3..36).step_by(2).for_each(|n| cpp += &format!("St4pairI{0}{0}E", id(n)));
    // Nested arrays, `[[[T; 2]; 2]; 2]`, of back references.
    let rust = |depth: usize| {
        let mut name = "_RINvC1a1fTjjE".to_owned();
        let mut last = 7;
        for _ in 0..depth {
            let place = name.len() - 2;
            let back = |at: usize| format!("B{}", base_62(at));
            name += &format!("T{0}{0}E", back(last));
            last = place;
        }
        name + "E"
    };
    let from = std::time::Instant::now();
    for name in [cpp.clone(), rust(30)] {
        for form in [NameForm::Short, NameForm::Plain, NameForm::Full] {
            let shown = demangle(name.as_bytes(), form);
            assert!(shown.len() <= MAX_SHOWN, "{}", shown.len());
        }
    }
    assert_eq!(demangle(cpp.as_bytes(), NameForm::Full), cpp);
    assert!(demangle(rust(2).as_bytes(), NameForm::Plain).starts_with("a::f::<(usize, usize), ("), "{}", rust(2));
    assert_eq!(demangle(rust(30).as_bytes(), NameForm::Plain), rust(30));
    assert!(from.elapsed() < std::time::Duration::from_secs(10), "{:?}", from.elapsed());
    let short = demangle(b"_Z1fSt4pairIiiES_IS0_S0_E", NameForm::Full);
    assert!(short.starts_with("f("), "{short}");
    assert_eq!(demangle(&[b'x'; 1 << 20], NameForm::Plain).len(), MAX_SHOWN);
}

/// Encodes a number as Rust's names do: 0 is `_`, 1 is `0_`.
fn base_62(n: usize) -> String {
    let digit = |d: usize| b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"[d] as char;
    match n {
        0 => "_".to_owned(),
        n if n <= 62 => format!("{}_", digit(n - 1)),
        n => format!("{}{}_", digit((n - 1) / 62), digit((n - 1) % 62)),
    }
}

#[test]
fn no_name_panics() {
    const NAMES: &[&str] = &[
        "_ZN3std2io5Write9write_all17h0123456789abcdefE",
        "_RNvCskwGfYPst2Cb_3foo16example_function",
        "_RINvNtCs1234_7mycrate3foo3barNvYNtB4_3BazNtB4_4Quux3quxE",
        "_ZN4llvm11PassManagerINS_8FunctionEJEE3runEv",
        "_ZNSt6vectorIiSaIiEE9push_backERKi",
        "_ZZN4shop6EngineIiE4stepEifENKUlvE_clEv",
        "_ZNSt3mapISsSt6vectorIcSaIcEESt4lessISsEE4findERKSs",
        "_ZlsRSoRK5Money",
        "_ZThn16_N1a1bD0Ev",
        "_ZW3modW4part1fIiEET_S3_",
        "_ZN3foo1fINS_1TEEEvT_Q4testIS1_E",
        "_GLOBAL__sub_I__ZN3appli3_kmEy",
        "___Z3foov_block_invoke_2",
        "_ZGIW3modW4part",
        "_ZTAXtlN2ns1GEtlNS_1UEdi1aLi3EEEE",
    ];
    damage::reaching(512, 15, damage::texts(NAMES), |name| {
        for form in [NameForm::Short, NameForm::Full] {
            demangle(name.as_bytes(), form);
        }
        arguments(&name);
        demangle(name.as_bytes(), NameForm::Plain) != name
    });
}
