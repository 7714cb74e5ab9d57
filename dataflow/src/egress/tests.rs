use super::*;

impl Weighty for u32 {
    fn weight(&self) -> usize {
        1
    }
}

fn push(outbox: &mut Outbox<u32, Epoch>, epoch: Epoch, items: &[u32]) {
    outbox.push(epoch, &mut items.to_vec(), || Some(epoch));
}

#[test]
fn two_deliveries_are_under_way_and_the_rest_grows_into_the_next() {
    let mut outbox = Outbox::new(Departure::AtOnce);
    for item in 0..2 {
        push(&mut outbox, 1, &[item]);
        assert_eq!(outbox.depart(|_| false), Some((u64::from(item), vec![item])));
    }
    push(&mut outbox, 1, &[2]);
    push(&mut outbox, 2, &[3]);
    assert_eq!(outbox.depart(|_| true), None);
    outbox.confirm(1);
    assert_eq!(outbox.depart(|_| false), Some((2, vec![2, 3])));
    outbox.confirm(0);
    outbox.confirm(2);
    assert!(outbox.in_flight.is_empty());
    assert_eq!(outbox.depart(|_| true), None, "nothing to send");
}

#[test]
fn a_delivery_holds_its_least_epoch_until_it_is_confirmed() {
    let mut outbox = Outbox::new(Departure::AtOnce);
    push(&mut outbox, 5, &[1]);
    push(&mut outbox, 3, &[2]);
    push(&mut outbox, 4, &[3]);
    outbox.depart(|_| false).expect("departs");
    assert_eq!(outbox.in_flight.values().copied().collect::<Vec<_>>(), [3]);
    outbox.confirm(0);
    assert!(outbox.in_flight.is_empty());
}

#[test]
fn small_writes_wait_for_the_end_of_their_epoch_and_large_ones_do_not() {
    let mut outbox = Outbox::new(Departure::AfterEpoch { weight_max: 3 });
    push(&mut outbox, 7, &[1]);
    assert_eq!(outbox.depart(|epoch| epoch < 7), None);
    assert_eq!(outbox.depart(|epoch| epoch <= 7), Some((0, vec![1])));
    push(&mut outbox, 8, &[1, 2, 3]);
    assert_eq!(outbox.depart(|_| false), Some((1, vec![1, 2, 3])));
    push(&mut outbox, 8, &[4]);
    assert_eq!(outbox.depart(|_| false), None, "the weight starts anew");
}
